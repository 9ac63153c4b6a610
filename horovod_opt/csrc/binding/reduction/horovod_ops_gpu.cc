#include "horovod_opt/csrc/binding/reduction/horovod_ops_gpu.h"

#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::HorovodGlobalState;
using horovod::common::ProcessSet;
using horovod::common::ReduceOp;
using horovod::common::Response;
using horovod::common::Status;
using horovod::common::TensorTableEntry;
using Clock = PlanTable::Clock;

// Upstream's fusion buffer may leave up to so many bytes free behind each tensor.
constexpr std::int64_t kAlignment = 64;

std::int64_t FusedBytes(const Work& work) {
  std::int64_t bytes = 0;
  for (int slot : work.slots) {
    bytes += (work.plan->slots[slot].bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  return bytes;
}

// All tensors of a bucket are on the same devices: plan.h, rebuild_buckets.h.
Response ResponseTo(const Slot& slot, int ranks) {
  Response response;
  response.set_response_type(Response::ALLREDUCE);
  response.set_tensor_type(static_cast<DataType>(slot.reduction.dtype));
  response.set_reduce_op(static_cast<ReduceOp>(slot.reduction.reduce_op));
  response.set_prescale_factor(slot.reduction.prescale);
  response.set_postscale_factor(slot.reduction.postscale);
  response.set_devices(slot.devices == nullptr ? Devices(ranks, CPU_DEVICE_ID) : *slot.devices);
  return response;
}

}  // namespace

PlannedOperations::PlannedOperations(HorovodGlobalState& horovod, PerformOperation perform,
                                     PlanTable& plans, PathCounters& counters, bool everything,
                                     bool verify)
    : horovod_(horovod),
      perform_(perform),
      plans_(plans),
      counters_(counters),
      everything_(everything),
      verify_(verify) {}

bool PlannedOperations::Performs(const Plan& plan, const std::vector<int>& slots) const {
  return everything_ || plan.slots[slots[0]].reduction.OnGpu();
}

void PlannedOperations::Hand(Work work) { Add({false, std::move(work)}); }

void PlannedOperations::HandRound() { Add({true, {}}); }

void PlannedOperations::Add(Item item) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back(std::move(item));
    waiting_ = true;
  }
  handed_.Notify();
}

bool PlannedOperations::Wait(Clock::time_point deadline) {
  const std::atomic<bool> never{false};
  WaitCounts counts;
  return handed_.Await([this] { return waiting_.load(); }, never, counts, futex::kForever,
                       deadline);
}

bool PlannedOperations::PerformUntilRound() {
  for (;;) {
    Item item;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!items_.empty()) {
        item = std::move(items_.front());
        items_.pop_front();
      }
      waiting_ = !items_.empty();
    }
    if (item.round) return true;
    if (item.work.plan == nullptr) return false;
    try {
      if (verify_) Compare(item.work);
      Perform(item.work);
    } catch (const std::exception& failure) {
      performing_ = nullptr;
      for (ArrivalPtr& arrival : item.work.arrivals) {
        if (arrival == nullptr) continue;
        TensorOf(arrival).entry.FinishWithCallback(ReductionFailed(failure.what()));
      }
      throw;
    }
  }
}

void PlannedOperations::Perform(Work& work) {
  const Slot& first = work.plan->slots[work.slots[0]];
  ProcessSet& everybody = horovod_.process_set_table.Get(0);
  // The fusion buffer may be smaller than the bucket: by the autotuner, or none to be
  // deterministic.
  const bool fused = FusedBytes(work) <= everybody.controller->TensorFusionThresholdBytes();
  const auto start = Clock::now();
  std::int64_t bytes = 0;
  const Response response = ResponseTo(first, everybody.controller->GetSize());
  const int element = everybody.controller->GetTypeSize(response.tensor_type());
  Response fusing = response;
  performing_ = &work;
  next_ = 0;
  for (std::size_t i = 0; i < work.slots.size(); ++i) {
    const Slot& slot = work.plan->slots[work.slots[i]];
    bytes += slot.bytes;
    fusing.add_tensor_name(slot.name);
    fusing.add_tensor_size(slot.bytes / element);
    if (fused && i + 1 < work.slots.size()) continue;
    perform_(fusing, everybody);
    fusing = response;
  }
  performing_ = nullptr;
  const auto now = Clock::now();
  counters_.AddBucket(bytes, now - start, now - work.last_arrival);
  if (plans_.MarkReduced(work)) counters_.AddIteration();
}

void PlannedOperations::Compare(const Work& work) {
  auto& controller = *horovod_.global_controller;
  const std::string own = Describe(work);
  if (AllEqual(controller, own, false)) return;
  throw std::runtime_error("The ranks were about to reduce different tensors:" +
                           Listed(GatherByRank(controller, own)));
}

void PlannedOperations::TakeEntries(const Response& response,
                                    std::vector<TensorTableEntry>& entries) {
  for (std::size_t i = 0; i < response.tensor_names().size(); ++i) {
    ArrivalPtr& arrival = performing_->arrivals[next_++];
    if (arrival == nullptr) {
      entries.push_back(Zeros(response, i));
    } else {
      entries.push_back(std::move(TensorOf(arrival).entry));
      arrival.reset();
    }
  }
}

// Upstream makes zeros for a rank that has joined, from what its join has put into the queue. That
// may be about to happen: plans hear of the join first.
TensorTableEntry PlannedOperations::Zeros(const Response& response, std::size_t position) {
  auto& queue = horovod_.process_set_table.Get(0).tensor_queue;
  while (!queue.IsTensorPresentInTable(JOIN_TENSOR_NAME)) {
    if (horovod_.shut_down) throw std::runtime_error("shut down while joining");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  Response one;
  one.set_response_type(Response::ALLREDUCE);
  one.set_tensor_type(response.tensor_type());
  one.add_tensor_name(response.tensor_names()[position]);
  one.add_tensor_size(response.tensor_sizes()[position]);
  std::vector<TensorTableEntry> entries;
  queue.GetTensorEntriesFromResponse(one, entries, /*joined=*/true);
  return std::move(entries[0]);
}

std::vector<ArrivalPtr> PlannedOperations::Close() {
  std::vector<ArrivalPtr> left;
  std::lock_guard<std::mutex> lock(mutex_);
  for (Item& item : items_) {
    for (ArrivalPtr& arrival : item.work.arrivals) {
      if (arrival != nullptr) left.push_back(std::move(arrival));
    }
  }
  items_.clear();
  return left;
}

}  // namespace horovod_opt
