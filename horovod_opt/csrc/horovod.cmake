# Adds horovod-opt's sources to upstream's list; a hook in upstream's CMakeLists.txt includes this.
include(${HOROVOD_OPT_SOURCE_DIR}/horovod_opt/csrc/shared_objects.cmake)
include(${HOROVOD_OPT_SOURCE_DIR}/horovod_opt/csrc/sources.cmake)
include(${HOROVOD_OPT_SOURCE_DIR}/horovod_opt/csrc/whole_folders.cmake)
list(APPEND SOURCES ${HOROVOD_OPT_CORE_SOURCES} ${HOROVOD_OPT_BINDING_SOURCES})
if(HAVE_MPI)
  list(APPEND SOURCES ${HOROVOD_OPT_MPI_SOURCES})
endif()
include_directories(${HOROVOD_OPT_SOURCE_DIR} ${HOROVOD_OPT_GENERATED_DIR} ${PROJECT_SOURCE_DIR})

function(horovod_opt_compile_less)
  horovod_opt_share_objects()
  foreach(target horovod_opt_common tensorflow pytorch gloo)
    horovod_opt_compile_whole_folders(${target})
  endforeach()
endfunction()

# For hook-gloo.patch: Gloo, and its copy for an old ABI, are targets of their own.
function(horovod_opt_hook_gloo)
  foreach(target gloo compatible_gloo)
    if(TARGET ${target})
      target_include_directories(${target} PRIVATE ${HOROVOD_OPT_SOURCE_DIR})
    endif()
  endforeach()
endfunction()

# The frameworks' libraries are made after this file is read.
cmake_language(DEFER CALL horovod_opt_compile_less)
cmake_language(DEFER CALL horovod_opt_hook_gloo)
