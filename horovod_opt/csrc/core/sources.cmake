# The core's sources as absolute paths, for every CMake project that compiles them.
set(HOROVOD_OPT_CORE_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/affinity.cc
    ${CMAKE_CURRENT_LIST_DIR}/agreement.cc
    ${CMAKE_CURRENT_LIST_DIR}/backoff.cc
    ${CMAKE_CURRENT_LIST_DIR}/counters.cc
    ${CMAKE_CURRENT_LIST_DIR}/partition.cc
    ${CMAKE_CURRENT_LIST_DIR}/ranges.cc
    ${CMAKE_CURRENT_LIST_DIR}/sleep.cc)
