// Gather: a rank copies its records out of the node cache.
#pragma once

#include <chrono>
#include <cstdint>

#include "horovod_opt/csrc/io/node_cache/cached_records.h"
#include "horovod_opt/csrc/io/node_cache/node_cache.h"
#include "horovod_opt_io_abi.h"

namespace horovod_opt {
namespace io {

enum class GatherResult {
  kAll,
  kTimeout,  // records from `begin` on are still to come
  kOver,     // the rank is done with the step, or the load, already
  kEnded,
  kTooFar,  // see NodeCache::Done
  kOther,   // the load brings another chunk: nothing is copied
};

// Copies and checks the records from `begin` on, and moves `begin` behind the last one that is
// there. Waits asleep for what is not loaded yet, in all for `longest` at most. Records of chunks
// that are kCached come from `cached`.
GatherResult Gather(NodeCache& cache, CachedRecords& cached, std::int64_t rank, std::int64_t step,
                    const HioRecords& records, std::int64_t& begin,
                    std::chrono::nanoseconds longest);

// The records of step i end before ends[i]; the steps' numbers in the node cache begin with
// `first`.
struct StepEnds {
  std::int64_t first, count;
  const std::int64_t* ends;
};

// Whole steps from progress.steps on. Waits for the first one as Gather does; takes those after it
// as far as all of their records are there already; and is done with each. records.count does not
// count.
//
// A step that has begun to be copied is not begun anew: `progress` goes on in it after kTimeout.
GatherResult GatherSteps(NodeCache& cache, CachedRecords& cached, std::int64_t rank,
                         const StepEnds& steps, HioRecords records, HioProgress& progress,
                         std::chrono::nanoseconds longest);

}  // namespace io
}  // namespace horovod_opt
