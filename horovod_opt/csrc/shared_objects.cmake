# Upstream compiles all that its libraries have in common once for each framework. Where
# TensorFlow's and PyTorch's are compiled alike, they share the objects: 124 compilations, not 203.

# The language, flags and definitions with which a framework's library compiles the common sources.
function(horovod_opt_compiled_with result target own_definitions)
  get_target_property(folder ${target} SOURCE_DIR)
  get_directory_property(defined DIRECTORY ${folder} COMPILE_DEFINITIONS)
  list(FILTER defined EXCLUDE REGEX "${own_definitions}")
  get_directory_property(given DIRECTORY ${folder} DEFINITION CMAKE_CXX_FLAGS)
  string(REGEX REPLACE "(-I|--?std=|-DEIGEN_MAX_ALIGN_BYTES=)[^ ]*" "" given "${given}")
  string(REGEX REPLACE " +" " " given " ${given} ")
  get_directory_property(standard DIRECTORY ${folder} DEFINITION CMAKE_CXX_STANDARD)
  set(${result} "C++${standard}${given}${defined}" PARENT_SCOPE)
endfunction()

function(horovod_opt_share_objects)
  if(NOT TARGET tensorflow OR NOT TARGET pytorch)
    return()
  endif()
  # What differs by name is the framework's own, and no common source looks at it.
  horovod_opt_compiled_with(tensorflow_with tensorflow "^TENSORFLOW_")
  horovod_opt_compiled_with(pytorch_with pytorch "^(PYTORCH|TORCH)_")
  if(NOT tensorflow_with STREQUAL pytorch_with)
    message(STATUS "TensorFlow's and PyTorch's libraries share no objects:\n"
                   "  ${tensorflow_with}\n  ${pytorch_with}")
    return()
  endif()
  get_target_property(folder tensorflow SOURCE_DIR)
  get_directory_property(flags DIRECTORY ${folder} DEFINITION CMAKE_CXX_FLAGS)
  separate_arguments(flags)
  get_target_property(include tensorflow INCLUDE_DIRECTORIES)
  add_library(horovod_opt_common OBJECT ${SOURCES})
  set_target_properties(horovod_opt_common PROPERTIES
                        INCLUDE_DIRECTORIES "${include}" POSITION_INDEPENDENT_CODE ON)
  get_directory_property(system DIRECTORY ${folder} DEFINITION Tensorflow_INCLUDE_DIRS)
  target_include_directories(horovod_opt_common SYSTEM PRIVATE ${system})
  target_compile_options(horovod_opt_common PRIVATE ${flags})
  foreach(library tensorflow pytorch)
    get_target_property(own ${library} SOURCES)
    list(REMOVE_ITEM own ${SOURCES})
    set_target_properties(${library} PROPERTIES
                          SOURCES "${own};$<TARGET_OBJECTS:horovod_opt_common>")
  endforeach()
  # So that a class of Eigen's is the same in PyTorch's own sources.
  string(REGEX MATCH "-DEIGEN_MAX_ALIGN_BYTES=[0-9]+" alignment "${flags}")
  target_compile_options(pytorch PRIVATE ${alignment})
endfunction()
