# Adds horovod-opt's sources to upstream's list; a hook in upstream's CMakeLists.txt includes this.
include(${HOROVOD_OPT_SOURCE_DIR}/horovod_opt/csrc/core/sources.cmake)
set(HOROVOD_OPT_BINDING ${HOROVOD_OPT_SOURCE_DIR}/horovod_opt/csrc/binding)
list(APPEND SOURCES ${HOROVOD_OPT_CORE_SOURCES}
     ${HOROVOD_OPT_BINDING}/background_thread.cc
     ${HOROVOD_OPT_BINDING}/c_api.cc
     ${HOROVOD_OPT_BINDING}/global_sleep.cc
     ${HOROVOD_OPT_BINDING}/rank_rows.cc
     ${HOROVOD_OPT_BINDING}/scp.cc
     ${HOROVOD_OPT_BINDING}/state.cc
     ${HOROVOD_OPT_BINDING}/wait_timer.cc)
if(HAVE_MPI)
  list(APPEND SOURCES ${HOROVOD_OPT_BINDING}/mpi_control.cc)
endif()
include_directories(${HOROVOD_OPT_SOURCE_DIR} ${HOROVOD_OPT_GENERATED_DIR} ${PROJECT_SOURCE_DIR})
