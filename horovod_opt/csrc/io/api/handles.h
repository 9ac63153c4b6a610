// Opaque handles of a C interface, and how errors become its codes: what the parts of it share.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/kept/job_memory.h"
#include "horovod_opt/csrc/io/node_cache/cached_records.h"
#include "horovod_opt/csrc/io/node_cache/gather.h"
#include "horovod_opt/csrc/io/node_cache/loader.h"
#include "horovod_opt/csrc/io/node_cache/peer_watch.h"
#include "horovod_opt/csrc/io/order/step_queue.h"
#include "horovod_opt_io_abi.h"

// The caller's; the node caches that use it have their own share of it.
struct HioJobMemory {
  std::shared_ptr<horovod_opt::io::JobMemory> memory;
};

struct HioNodeCache {
  explicit HioNodeCache(horovod_opt::io::NodeCacheMemory memory) : cache(std::move(memory)) {}

  horovod_opt::io::NodeCache cache;
  horovod_opt::io::FileTable files;
  std::unique_ptr<horovod_opt::io::Loader> loader;  // the reader's
  std::unique_ptr<horovod_opt::io::CachedRecords> cached;
  std::unique_ptr<horovod_opt::io::PeerWatch> watch;
  std::mutex queues_mutex;
  std::vector<std::weak_ptr<horovod_opt::io::StepQueue>> queues;  // to be detached
};

namespace horovod_opt {
namespace io {

// Of this thread; hio_error() returns it.
std::string& LastError();

// No exception leaves the library.
template <class Result, class Action>
Result Guarded(Result failed, const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    LastError() = error.what();
    return failed;
  }
}

Load LoadOf(const HioLoads& loads, std::int64_t i);

// HIO_OK while the cache is in use.
int EndOf(const NodeCache& cache);
int Code(GatherResult result, const NodeCache& cache);

}  // namespace io
}  // namespace horovod_opt
