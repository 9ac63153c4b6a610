#include "horovod_opt/csrc/binding/topo/planned_call.h"

#include <exception>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "horovod/common/message.h"
#include "horovod_opt/csrc/binding/topo/arithmetic.h"
#include "horovod_opt/csrc/binding/topo/planned_tensor.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::ReduceOp;
using horovod::common::Status;
using horovod::common::TensorShape;
using horovod::common::TensorTableEntry;

// nullptr: this rank has joined and sends nothing.
TensorTableEntry* EntryOf(Work& work) {
  return work.arrivals[0] == nullptr ? nullptr : &TensorOf(work.arrivals[0]).entry;
}

const void* DataOf(const TensorTableEntry* entry) {
  return entry == nullptr ? nullptr : entry->tensor->data();
}

TensorShape ShapeOf(std::int64_t rows, const TensorTableEntry& entry) {
  TensorShape shape;
  shape.AddDim(rows);
  for (int i = 1; i < entry.tensor->shape().dims(); ++i) {
    shape.AddDim(entry.tensor->shape().dim_size(i));
  }
  return shape;
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

// As upstream's ReducescatterOp::ComputeOutputShapeForRank() has it: the first ranks have one row
// more if they cannot be divided equally.
std::int64_t RowsOf(std::int64_t rows, int rank, int ranks) {
  return rows / ranks + (rank < rows % ranks ? 1 : 0);
}

}  // namespace

bool PerformCall(NodeCollectives& node, int rank, int ranks, Work& work, std::uint64_t tag,
                 const std::atomic<bool>& stop, WaitCounts& counts, Status& status) {
  const Slot& slot = work.plan->slots[work.slots[0]];
  TensorTableEntry* const entry = EntryOf(work);
  status = Status::OK();
  switch (slot.collective) {
    case Collective::kAllgather: {
      const auto output = [&](const std::vector<std::int64_t>& rows) -> void* {
        if (entry == nullptr) return nullptr;
        return Allocate(*entry, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), status);
      };
      const std::int64_t rows = entry == nullptr ? 0 : entry->tensor->shape().dim_size(0);
      return node.Allgather(DataOf(entry), rows, slot.bytes, output, tag, stop, counts);
    }
    case Collective::kBroadcast: {
      const void* data = DataOf(entry);
      if (entry != nullptr && rank != slot.root) data = entry->output->data();
      return node.Broadcast(const_cast<void*>(data), slot.bytes, slot.root, tag, stop, counts);
    }
    case Collective::kReducescatter: {
      const std::int64_t rows = slot.rows;
      std::vector<std::int64_t> ends;
      for (int owner = 0; owner < ranks; ++owner) {
        const std::int64_t part = RowsOf(rows, owner, ranks) * (rows == 0 ? 0 : slot.bytes / rows);
        ends.push_back((ends.empty() ? 0 : ends.back()) + part);
      }
      void* const output =
          entry == nullptr ? nullptr : Allocate(*entry, RowsOf(rows, rank, ranks), status);
      const Reduction& reduction = slot.reduction;
      return node.ReduceScatter(
          DataOf(entry), output, ends,
          ArithmeticOf(static_cast<DataType>(reduction.dtype), ReduceOp::SUM), reduction.prescale,
          reduction.postscale, tag, stop, counts);
    }
    case Collective::kAllreduce:
      break;
  }
  throw std::logic_error("not a call");
}

}  // namespace horovod_opt
