# Adds horovod-opt's sources to upstream's list; a hook in upstream's CMakeLists.txt includes this.
include(${HOROVOD_OPT_SOURCE_DIR}/horovod_opt/csrc/shared_objects.cmake)
include(${HOROVOD_OPT_SOURCE_DIR}/horovod_opt/csrc/core/sources.cmake)
set(HOROVOD_OPT_BINDING ${HOROVOD_OPT_SOURCE_DIR}/horovod_opt/csrc/binding)
list(APPEND SOURCES ${HOROVOD_OPT_CORE_SOURCES}
     ${HOROVOD_OPT_BINDING}/arithmetic.cc
     ${HOROVOD_OPT_BINDING}/background_thread.cc
     ${HOROVOD_OPT_BINDING}/c_api.cc
     ${HOROVOD_OPT_BINDING}/cross_nodes.cc
     ${HOROVOD_OPT_BINDING}/enqueue.cc
     ${HOROVOD_OPT_BINDING}/global_sleep.cc
     ${HOROVOD_OPT_BINDING}/mismatch.cc
     ${HOROVOD_OPT_BINDING}/node_memory.cc
     ${HOROVOD_OPT_BINDING}/order_thread.cc
     ${HOROVOD_OPT_BINDING}/plan_api.cc
     ${HOROVOD_OPT_BINDING}/planned_lane.cc
     ${HOROVOD_OPT_BINDING}/planned_operations.cc
     ${HOROVOD_OPT_BINDING}/process_end.cc
     ${HOROVOD_OPT_BINDING}/rank_rows.cc
     ${HOROVOD_OPT_BINDING}/scp.cc
     ${HOROVOD_OPT_BINDING}/split_watch.cc
     ${HOROVOD_OPT_BINDING}/stall.cc
     ${HOROVOD_OPT_BINDING}/state.cc
     ${HOROVOD_OPT_BINDING}/topo.cc
     ${HOROVOD_OPT_BINDING}/wait_timer.cc)
if(HAVE_MPI)
  list(APPEND SOURCES ${HOROVOD_OPT_BINDING}/mpi_control.cc
       ${HOROVOD_OPT_BINDING}/mpi_cross_nodes.cc)
endif()
if(HAVE_GLOO)
  list(APPEND SOURCES ${HOROVOD_OPT_BINDING}/gloo_cross_nodes.cc)
endif()
include_directories(${HOROVOD_OPT_SOURCE_DIR} ${HOROVOD_OPT_GENERATED_DIR} ${PROJECT_SOURCE_DIR})
