# All C++ sources as absolute paths, for every CMake project that compiles them.

# The ideas: without Horovod, frameworks, MPI. First what torch.distributed's backend needs, too.
set(HOROVOD_OPT_C10D_CORE_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/core/base/float16.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/elements/arithmetic.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/elements/tensor_view.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/network/allreduce_schedules.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/network/block_ring.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/network/nonblocking_allreduce.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/network/own_address.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/network/progress_engine.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/network/tcp_connections.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/network/tcp_rendezvous.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/network/tcp_transport.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/network/word_allreduce.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/ordered_calls/hierarchical_collectives.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/ordered_calls/host_links.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/ordered_calls/ordered_group.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/ordered_calls/ordered_group_trouble.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/ordered_calls/watch.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/reduction/node_collectives.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/reduction/reduce_scatter_allgather.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/report/state_page.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shared_memory/bucket_layout.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shared_memory/bucket_places.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shared_memory/segment_handover.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shared_memory/segment_sharing.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shared_memory/shared_segment.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/waiting/futex.cc)
# All of them.
set(HOROVOD_OPT_CORE_SOURCES
    ${HOROVOD_OPT_C10D_CORE_SOURCES}
    ${CMAKE_CURRENT_LIST_DIR}/core/agreement/contradictions.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/agreement/settings_agreement.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/agreement/stall_report.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/agreement/unnamed_calls.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/cores/affinity.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/cores/partition.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/counters/path_counters.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/counters/thread_usage.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/bucket_filling.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/consensus.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/parse_plan.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/plan.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/plan_run.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/plan_run_votes.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/plan_table.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/plan_table_reports.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/plan_table_votes.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/planned_bucket.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/plan/rebuild_buckets.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/reduction/horovod_ops_order.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/reduction/internode_buckets.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/reduction/internode_calls.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/reduction/planned_call.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/reduction/small_buckets.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/report/state_socket.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shared_memory/bucket_ids.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shared_memory/ready_queue.cc)

# What hooks them into Horovod.
set(HOROVOD_OPT_BINDING_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/binding/base/rank_rows.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/base/state.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/background_thread.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/enqueue.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/mismatch.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/process_end.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/hooks/refusal.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/scp.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/call.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/mismatch_watch.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/objection.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/round_work.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/rounds.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/set_path.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/set_round_work.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/stall_watch.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/topo.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/topo/unnamed_call.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/network/group_transport.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/python/plan_api.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/python/settings_api.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/report/performed_response.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/report/process_state.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/report/rank_state.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/reduction/horovod_ops_gpu.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/reduction/horovod_ops_order_thread.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/reduction/node_memory.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/reduction/planned_path.cc)
set(HOROVOD_OPT_MPI_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/binding/modes/nbcs.cc
    ${CMAKE_CURRENT_LIST_DIR}/binding/network/mpi_transport.cc)

# The input side's reader: libhorovod_opt_io.so, without frameworks and MPI.
set(HOROVOD_OPT_IO_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/io/files/crc32c.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/files/open_files.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/kept/chunk_client.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/kept/chunk_server.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/kept/hmac_sha256.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/kept/job_memory.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/kept/kept_chunks.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/node_cache/cached_records.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/node_cache/chunk_buffers.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/node_cache/gather.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/node_cache/load_check.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/node_cache/loader.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/node_cache/node_cache.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/node_cache/node_cache_memory.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/node_cache/read_extent.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/order/dealing.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/order/permutation.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/order/step_order.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/order/step_queue.cc)
set(HOROVOD_OPT_IO_CORE_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/core/network/own_address.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/shared_memory/shared_segment.cc
    ${CMAKE_CURRENT_LIST_DIR}/core/waiting/futex.cc)
set(HOROVOD_OPT_IO_API
    ${CMAKE_CURRENT_LIST_DIR}/io/api/general_api.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/api/job_memory_api.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/api/node_cache_api.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/api/queue_api.cc)
set(HOROVOD_OPT_IO_EXPORTED ${CMAKE_CURRENT_LIST_DIR}/io/api/exported.map)
# libhorovod_opt_overlay.so: files of a pack for any program.
set(HOROVOD_OPT_OVERLAY_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/io/files/crc32c.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/attribute_calls.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/change_calls.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/closing_calls.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/contents.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/file_table.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/folder_calls.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/opening_calls.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/outputs.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/paths.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/session.cc
    ${CMAKE_CURRENT_LIST_DIR}/io/overlay/store_connection.cc)
# libhorovod_opt_io_tensorflow.so: a kernel that takes steps out of it, compiled where TensorFlow is.
set(HOROVOD_OPT_IO_TENSORFLOW_SOURCES ${CMAKE_CURRENT_LIST_DIR}/io/tensorflow/steps_dataset.cc)

# torch.distributed's backend: libhorovod_opt_c10d.so, compiled where PyTorch is, without Horovod.
set(HOROVOD_OPT_C10D_SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/c10d/backend.cc
    ${CMAKE_CURRENT_LIST_DIR}/c10d/module.cc
    ${CMAKE_CURRENT_LIST_DIR}/c10d/tensor_calls.cc)
