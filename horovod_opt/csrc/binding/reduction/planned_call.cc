#include "horovod_opt/csrc/binding/reduction/planned_call.h"

#include <exception>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "horovod/common/message.h"
#include "horovod_opt/csrc/binding/reduction/arithmetic.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::ReduceOp;
using horovod::common::Status;
using horovod::common::TensorShape;
using horovod::common::TensorTableEntry;

using Outcome = NodeCollectives::Outcome;

TensorShape ShapeOf(std::int64_t rows, const TensorTableEntry& entry) {
  TensorShape shape;
  shape.AddDim(rows);
  for (int i = 1; i < entry.tensor->shape().dims(); ++i) {
    shape.AddDim(entry.tensor->shape().dim_size(i));
  }
  return shape;
}

std::int64_t RowBytes(const Slot& slot) {
  if (slot.collective != Collective::kReducescatter) return slot.bytes;
  return slot.rows == 0 ? 0 : slot.bytes / slot.rows;
}

Arithmetic SumsOf(const Slot& slot) {
  return ArithmeticOf(static_cast<DataType>(slot.reduction.dtype), ReduceOp::SUM);
}

// The output of `rows` rows; nullptr if there is none, and then `status` says why. The other ranks
// are in the middle of the call, so nothing may be thrown.
void* Allocate(TensorTableEntry& entry, std::int64_t rows, Status& status) {
  try {
    status = entry.context->AllocateOutput(entry.output_index, ShapeOf(rows, entry), &entry.output);
  } catch (const std::exception& problem) {
    status = Status::UnknownError(problem.what());
  }
  return status.ok() ? const_cast<void*>(entry.output->data()) : nullptr;
}

}  // namespace

bool PerformCall(const GroupCollectives& group, Work& work, std::uint64_t tag, WaitCounts& counts,
                 Status& status) {
  const auto& [node, rank, ranks, stop] = group;
  if (work.arrivals[0] == nullptr) return node.StayAway(stop, counts);  // this rank has joined
  const Slot& slot = work.plan->slots[work.slots[0]];
  TensorTableEntry& entry = TensorOf(work.arrivals[0]).entry;
  const void* const data = entry.tensor->data();
  status = Status::OK();
  Outcome outcome = Outcome::kStopped;
  switch (slot.collective) {
    case Collective::kAllgather: {
      const auto output = [&](const std::vector<std::int64_t>& rows) {
        return Allocate(entry, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), status);
      };
      outcome = node.Allgather(data, entry.tensor->shape().dim_size(0), slot.bytes, output, tag,
                               stop, counts);
      break;
    }
    case Collective::kBroadcast: {
      const void* const copied = rank == slot.root ? data : entry.output->data();
      outcome = node.Broadcast(const_cast<void*>(copied), slot.bytes, slot.root, tag, stop, counts);
      break;
    }
    case Collective::kReducescatter: {
      const std::int64_t row_bytes = RowBytes(slot);
      std::vector<std::int64_t> ends;
      for (int owner = 0; owner < ranks; ++owner) {
        ends.push_back((ends.empty() ? 0 : ends.back()) +
                       RowsOf(slot.rows, owner, ranks) * row_bytes);
      }
      // Unlike that of an allgather it has been allocated: its size was known.
      void* const output = const_cast<void*>(entry.output->data());
      const Reduction& reduction = slot.reduction;
      outcome = node.ReduceScatter(data, output, ends, SumsOf(slot), reduction.prescale,
                                   reduction.postscale, tag, stop, counts);
      break;
    }
    case Collective::kAllreduce:
      throw std::logic_error("not a call");
  }
  if (outcome == Outcome::kIncomplete) status = Incomplete(work);
  return outcome != Outcome::kStopped;
}

InternodeCall CallOf(const CompleteBucket& bucket) {
  const Slot& slot = bucket.plan.slots[bucket.slots[0]];
  InternodeCall call;
  call.collective = slot.collective;
  call.row_bytes = RowBytes(slot);
  call.joined = bucket.arrivals[0] == nullptr;
  if (call.joined) return call;
  PlannedTensor& tensor = TensorOf(bucket.arrivals[0]);
  const TensorTableEntry& entry = tensor.entry;
  call.data = static_cast<const char*>(entry.tensor->data());
  call.root = slot.root;
  call.rows = slot.collective == Collective::kBroadcast ? 1 : entry.tensor->shape().dim_size(0);
  if (slot.collective == Collective::kReducescatter) {
    call.arithmetic = SumsOf(slot);
    call.prescale = slot.reduction.prescale;
    call.postscale = slot.reduction.postscale;
  }
  call.output = [&tensor, gathers = slot.collective == Collective::kAllgather](std::int64_t rows) {
    const auto& output = tensor.entry.output;
    void* const memory =
        gathers ? Allocate(tensor.entry, rows, tensor.problem) : const_cast<void*>(output->data());
    return std::shared_ptr<char>(output, static_cast<char*>(memory));
  };
  return call;
}

Status Incomplete(const Work& work) {
  return Status::PreconditionError("Horovod: a rank has joined, so the " + work.plan->name +
                                   " is incomplete; only allreduces can be joined.");
}

}  // namespace horovod_opt
