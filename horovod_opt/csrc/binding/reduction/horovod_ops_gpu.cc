#include "horovod_opt/csrc/binding/reduction/horovod_ops_gpu.h"

#include <algorithm>
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
  for (int slot : work.bucket->slots) {
    bytes += (work.bucket->plan->slots[slot].bytes + kAlignment - 1) / kAlignment * kAlignment;
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

HorovodOps::HorovodOps(HorovodGlobalState& horovod, PerformOperation perform, PlanTable& plans,
                       PathCounters& counters, bool performs_all, bool verify)
    : horovod_(horovod),
      perform_(perform),
      plans_(plans),
      counters_(counters),
      performs_all_(performs_all),
      verify_(verify) {}

bool HorovodOps::Performs(const PlannedBucket& bucket) const {
  return performs_all_ || bucket.first().reduction.OnGpu();
}

void HorovodOps::Hand(Work work) { Add({false, std::move(work)}); }

void HorovodOps::HandRound() { Add({true, {}}); }

void HorovodOps::Add(Item item) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    items_.push_back(std::move(item));
    waiting_ = true;
  }
  work_event_.Notify();
}

bool HorovodOps::Wait(Clock::time_point deadline) {
  const std::atomic<bool> never{false};
  WaitCounts counts;
  return work_event_.Await([this] { return waiting_.load(); }, never, counts, futex::kForever,
                           deadline);
}

bool HorovodOps::PerformUntilRound() {
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
    if (item.work.IsEmpty()) return false;
    try {
      if (verify_) Compare(item.work);
      Perform(item.work);
    } catch (const std::exception& failure) {
      current_ = nullptr;
      for (ArrivalPtr& arrival : item.work.arrivals) {
        if (arrival == nullptr) continue;
        TensorOf(arrival).entry.FinishWithCallback(ReductionFailed(failure.what()));
      }
      throw;
    }
  }
}

void HorovodOps::Perform(Work& work) {
  const PlannedBucket& bucket = *work.bucket;
  ProcessSet& all_ranks = horovod_.process_set_table.Get(0);
  // The fusion buffer may be smaller than the bucket: by the autotuner, or none to be
  // deterministic.
  const bool fused = FusedBytes(work) <= all_ranks.controller->TensorFusionThresholdBytes();
  const auto start = Clock::now();
  const Response response = ResponseTo(bucket.first(), all_ranks.controller->GetSize());
  const int element = all_ranks.controller->GetTypeSize(response.tensor_type());
  Response fusing = response;
  current_ = &work;
  next_ = 0;
  for (std::size_t i = 0; i < bucket.slots.size(); ++i) {
    const Slot& slot = bucket.plan->slots[bucket.slots[i]];
    fusing.add_tensor_name(slot.name);
    fusing.add_tensor_size(slot.bytes / element);
    if (fused && i + 1 < bucket.slots.size()) continue;
    perform_(fusing, all_ranks);
    fusing = response;
  }
  current_ = nullptr;
  plans_.MarkReduced(work, start, counters_);
}

void HorovodOps::Compare(const Work& work) {
  auto& controller = *horovod_.global_controller;
  if (AllEqual(controller, std::to_string(work.Tag()), false)) return;
  throw std::runtime_error("The ranks were about to reduce different tensors:" +
                           ListRows(GatherByRank(controller, work.Describe())));
}

void HorovodOps::TakeEntries(const Response& response, std::vector<TensorTableEntry>& entries) {
  for (std::size_t i = 0; i < response.tensor_names().size(); ++i) {
    ArrivalPtr& arrival = current_->arrivals[next_++];
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
TensorTableEntry HorovodOps::Zeros(const Response& response, std::size_t position) {
  auto& queue = horovod_.process_set_table.Get(0).tensor_queue;
  while (!queue.IsTensorPresentInTable(JOIN_TENSOR_NAME)) {
    if (horovod_.shut_down) throw std::runtime_error("shut down while joining");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  Response single;
  single.set_response_type(Response::ALLREDUCE);
  single.set_tensor_type(response.tensor_type());
  single.add_tensor_name(response.tensor_names()[position]);
  single.add_tensor_size(response.tensor_sizes()[position]);
  std::vector<TensorTableEntry> entries;
  queue.GetTensorEntriesFromResponse(single, entries, /*joined=*/true);
  return std::move(entries[0]);
}

std::vector<ArrivalPtr> HorovodOps::Close() {
  std::vector<ArrivalPtr> arrivals;
  std::lock_guard<std::mutex> lock(mutex_);
  for (Item& item : items_) {
    for (ArrivalPtr& arrival : item.work.arrivals) {
      if (arrival != nullptr) arrivals.push_back(std::move(arrival));
    }
  }
  items_.clear();
  return arrivals;
}

void HorovodOps::DumpState(StatePage& page) {
  std::unique_lock<std::mutex> lock(mutex_, std::defer_lock);
  page.Under(lock, "the buckets for Horovod's own operations", [&] {
    if (items_.empty()) return;
    const auto buckets =
        std::count_if(items_.begin(), items_.end(), [](const Item& item) { return !item.round; });
    page.Line(0, "for Horovod's own operations, not performed yet: " + std::to_string(buckets) +
                     (buckets == 1 ? " bucket" : " buckets"));
  });
}

}  // namespace horovod_opt
