// Allgather, broadcast and reduce-scatter, planned, of one tensor each: in the memory of a group, and
// what they share with those among several groups (internode_calls.cc).
#pragma once

#include <atomic>
#include <cstdint>

#include "horovod_opt/csrc/core/elements/arithmetic.h"
#include "horovod_opt/csrc/core/plan/planned_bucket.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// Of the sum that a reducescatter of `rows` rows gives to `rank` of `ranks`: the first ranks have
// one more if they cannot be divided equally, as in upstream's ReducescatterOp.
constexpr std::int64_t RowsOf(std::int64_t rows, int rank, int ranks) {
  return rows / ranks + (rank < rows % ranks ? 1 : 0);
}

// Of a row that is gathered or scattered, or of the whole that is broadcast.
std::int64_t RowBytes(const Slot& slot);

// Rows that a rank gives to the call.
std::int64_t RowsGiven(const Slot& slot, const Arrival& tensor);

// Where a broadcast of `segment` is read from on its root, and written to elsewhere.
void* SourceOf(const Slot& slot, const Segment& segment, int rank);

// Of a reducescatter. Throws std::logic_error for a type that has none.
Arithmetic SumsOf(const Slot& slot);

// All ranks of a group, as one of them sees it.
struct GroupCollectives {
  NodeCollectives& node;
  const int rank, ranks;
  const std::atomic<bool>& stop;
};

// Performs the call in `work`. Exceptions as of NodeCollectives; kIncomplete if a rank has joined,
// also this one.
NodeCollectives::Outcome PerformCall(const GroupCollectives& group, const Work& work,
                                     WaitCounts& counts);

}  // namespace horovod_opt
