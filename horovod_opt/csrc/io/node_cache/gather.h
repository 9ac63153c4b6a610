// A rank takes its records out of the ring.
#pragma once

#include <chrono>
#include <cstdint>

#include "horovod_opt/csrc/io/node_cache/cached_records.h"
#include "horovod_opt/csrc/io/node_cache/node_cache.h"

namespace horovod_opt {
namespace io {

struct Records {
  std::int64_t count;
  const std::int64_t* loads;       // which load brings each
  const std::int64_t* places;      // where in its slot
  const std::int64_t* sizes;       // bytes
  const std::uint32_t* checksums;  // CRC-32C, or null: not compared
  const std::int32_t* files;       // where each is in its file, for what is in the page cache
  const std::int64_t* offsets;
  char* out;                       // null: out_places are addresses
  const std::int64_t* out_places;
  Status* statuses;         // of each; its bytes are in `out` whatever it is
  std::int64_t origin = 0;  // the place that `out` begins with
};

enum class Gathered {
  kAll,
  kTimeout,  // records from `begin` on are still to come
  kOver,     // the rank is done with the step, or the load, already
  kEnded,
  kTooFar,  // see Ring::Done
};

// Copies and checks the records from `begin` on, and moves `begin` behind the last one that is
// there. Waits asleep for what is not loaded yet, in all for `longest` at most. Records of chunks
// that are kCached come from `cached`.
Gathered Gather(Ring& ring, CachedRecords& cached, std::int64_t rank, std::int64_t step,
                const Records& records, std::int64_t& begin, std::chrono::nanoseconds longest);

struct Progress {
  std::int64_t steps, records;  // taken
  std::int64_t bad;             // records whose status is not kGood
};

// Whole steps from progress.steps on, up to `count`: their numbers in the ring begin with `first`,
// and the records of step i end before ends[i]. Waits for the first one as Gather does; takes those
// after it as far as all of their records are there already; and is done with each.
//
// A step that has begun to be copied is not begun anew: `progress` goes on in it after kTimeout.
Gathered GatherSteps(Ring& ring, CachedRecords& cached, std::int64_t rank, std::int64_t first,
                     std::int64_t count, const std::int64_t* ends, Records records,
                     Progress& progress, std::chrono::nanoseconds longest);

}  // namespace io
}  // namespace horovod_opt
