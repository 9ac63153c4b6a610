#include "horovod_opt/csrc/core/reduction/planned_call.h"

#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace horovod_opt {
namespace {

using Outcome = NodeCollectives::Outcome;

Outcome GatherRows(const GroupCollectives& group, const Slot& slot, Arrival& tensor,
                   std::uint64_t tag, WaitCounts& counts) {
  std::shared_ptr<char> result;
  const auto output = [&](const std::vector<std::int64_t>& rows) {
    result = tensor.AllocateResult(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
    return result.get();
  };
  return group.node.Allgather(tensor.segment.in, tensor.rows, slot.bytes, output, tag, group.stop,
                              counts);
}

Outcome ScatterSums(const GroupCollectives& group, const Slot& slot, const Arrival& tensor,
                    std::uint64_t tag, WaitCounts& counts) {
  const std::int64_t row_bytes = RowBytes(slot);
  std::vector<std::int64_t> ends;
  for (int owner = 0; owner < group.ranks; ++owner) {
    ends.push_back((ends.empty() ? 0 : ends.back()) +
                   RowsOf(slot.rows, owner, group.ranks) * row_bytes);
  }
  const Reduction& reduction = slot.reduction;
  return group.node.ReduceScatter(tensor.segment.in, tensor.segment.out, ends, SumsOf(slot),
                                  reduction.prescale, reduction.postscale, tag, group.stop, counts);
}

}  // namespace

std::int64_t RowBytes(const Slot& slot) {
  if (slot.collective != Collective::kReducescatter) return slot.bytes;
  return slot.rows == 0 ? 0 : slot.bytes / slot.rows;
}

std::int64_t RowsGiven(const Slot& slot, const Arrival& tensor) {
  switch (slot.collective) {
    case Collective::kAllgather:
      return tensor.rows;
    case Collective::kReducescatter:
      return slot.rows;
    default:
      return 1;
  }
}

void* SourceOf(const Slot& slot, const Segment& segment, int rank) {
  return rank == slot.root ? const_cast<void*>(segment.in) : segment.out;
}

Arithmetic SumsOf(const Slot& slot) {
  const auto sums = ArithmeticOf(slot.reduction.dtype, reduce_op::kSum);
  if (!sums) throw std::logic_error("no arithmetic for this data type");
  return *sums;
}

Outcome PerformCall(const GroupCollectives& group, const Work& work, WaitCounts& counts) {
  if (work.arrivals[0] == nullptr) {
    return group.node.StayAway(group.stop, counts) ? Outcome::kIncomplete : Outcome::kStopped;
  }
  const Slot& slot = work.bucket->first();
  Arrival& tensor = *work.arrivals[0];
  switch (slot.collective) {
    case Collective::kAllgather:
      return GatherRows(group, slot, tensor, work.Tag(), counts);
    case Collective::kBroadcast:
      return group.node.Broadcast(SourceOf(slot, tensor.segment, group.rank), slot.bytes, slot.root,
                                  work.Tag(), group.stop, counts);
    case Collective::kReducescatter:
      return ScatterSums(group, slot, tensor, work.Tag(), counts);
    case Collective::kAllreduce:
      break;
  }
  throw std::logic_error("not a call");
}

}  // namespace horovod_opt
