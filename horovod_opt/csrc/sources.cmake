# All C++ sources as absolute paths, for every CMake project that compiles them.

# The ideas: without Horovod, frameworks, MPI.
set(HOROVOD_OPT_CORE_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/core/base/ranges.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/base/settings_agreement.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/cores/affinity.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/cores/partition.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/counters/cycle_counters.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/counters/path_counters.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/counters/step_count.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/nodes/bucket_order.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/nodes/groups.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/await_data.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/consensus.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/plan.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/plan_run.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/plan_table.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/rebuild_buckets.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shm/doorbell.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shm/node_allreduce.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shm/node_barrier.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shm/presence.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shm/ready_queue.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shm/segment_handover.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shm/shared_segment.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shm/tensor_view.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/waiting/backoff.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/waiting/futex.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/waiting/sleep.cc)

# What hooks them into Horovod.
set(HOROVOD_OPT_BINDING_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/binding/base/rank_rows.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/base/state.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/background_thread.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/enqueue.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/mismatch.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/process_end.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/wait_timer.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/gs.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/scp.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/python/plan_api.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/python/settings_api.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/arithmetic.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/cross_nodes.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/node_memory.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/order_thread.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/planned_operations.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/planned_path.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/split_watch.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/stall.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/topo.cc)
set(HOROVOD_OPT_MPI_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/nbcs.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/mpi_cross_nodes.cc)
set(HOROVOD_OPT_GLOO_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/binding/topo/gloo_cross_nodes.cc)
