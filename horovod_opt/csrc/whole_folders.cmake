# The sources of a folder are compiled as one, so that its headers are parsed once: half the time.
# HOROVOD_OPT_WHOLE_FOLDERS=0 compiles each by itself, which is less where only one has changed.

# TensorFlow's two and one of Gloo's define names that others use.
set(HOROVOD_OPT_COMPILED_APART "/horovod/tensorflow/|/gloo/allreduce_local\\.cc$")

function(horovod_opt_compile_whole_folders target)
  if("$ENV{HOROVOD_OPT_WHOLE_FOLDERS}" STREQUAL "0" OR NOT TARGET ${target})
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  list(FILTER sources EXCLUDE REGEX "${HOROVOD_OPT_COMPILED_APART}")
  foreach(source IN LISTS sources)
    file(RELATIVE_PATH folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR} ${source})
    get_filename_component(folder ${folder} DIRECTORY)
    string(MAKE_C_IDENTIFIER ${folder} group)
    set_source_files_properties(${source} TARGET_DIRECTORY ${target}
                                PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
