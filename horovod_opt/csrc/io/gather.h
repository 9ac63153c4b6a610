// A rank takes its records out of the ring.
#pragma once

#include <chrono>
#include <cstdint>

#include "horovod_opt/csrc/io/ring.h"

namespace horovod_opt {
namespace io {

struct Records {
  std::int64_t count;
  const std::int64_t* loads;       // which load brings each
  const std::int64_t* places;      // where in its slot
  const std::int64_t* sizes;       // bytes
  const std::uint32_t* checksums;  // CRC-32C, or null: not compared
  char* out;
  const std::int64_t* out_places;
  Status* statuses;  // of each; its bytes are in `out` whatever it is
};

enum class Gathered {
  kAll,
  kTimeout,  // records from `begin` on are still to come
  kOver,     // the rank is done with the step, or the load, already
  kEnded,
};

// Copies and checks the records from `begin` on, and moves `begin` behind the last one that is
// there. Waits asleep for what is not loaded yet, in all for `longest` at most.
Gathered Gather(Ring& ring, std::int64_t rank, std::int64_t step, const Records& records,
                std::int64_t& begin, std::chrono::nanoseconds longest);

}  // namespace io
}  // namespace horovod_opt
