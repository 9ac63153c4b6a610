#include "planned_lane.h"

#include <pthread.h>

#include <stdexcept>
#include <utility>

#include "arithmetic.h"
#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/core/hash.h"
#include "planned_tensor.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::HorovodGlobalState;
using horovod::common::ReduceOp;
using horovod::common::Response;
using horovod::common::Status;
using Clock = PlanLane::Clock;

const char kActivity[] = "PLANNED_ALLREDUCE";

std::string Describe(const Work& work) {
  std::string text = "plan " + work.plan->hash + " (" + work.plan->name + "), pass " +
                     std::to_string(work.pass) + ", bucket " + std::to_string(work.ticket) + ": ";
  const char* separator = "";
  for (int slot : work.slots) {
    text += separator + work.plan->slots[slot].name;
    separator = ", ";
  }
  return text;
}

std::vector<Segment> SegmentsOf(const Work& work) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < work.slots.size(); ++i) {
    const std::int64_t bytes = work.plan->slots[work.slots[i]].bytes;
    if (work.arrivals[i] == nullptr) {
      segments.push_back({nullptr, nullptr, bytes});
    } else {
      const auto& entry = TensorOf(work.arrivals[i]).entry;
      segments.push_back({entry.tensor->data(), const_cast<void*>(entry.output->data()), bytes});
    }
  }
  return segments;
}

// Marks the tensors of a bucket in upstream's timeline while it lives.
class TimelineScope {
 public:
  TimelineScope(HorovodGlobalState& horovod, const Work& work)
      : timeline_(horovod.timeline), work_(work) {
    if (!timeline_.Initialized()) return;
    ForEach([&](const auto& entry) {
      timeline_.Start(entry.tensor_name, Response::ALLREDUCE, entry.tensor->size());
      timeline_.ActivityStart(entry.tensor_name, kActivity);
    });
  }
  ~TimelineScope() {
    if (!timeline_.Initialized()) return;
    ForEach([&](const auto& entry) { timeline_.End(entry.tensor_name, entry.output); });
  }

 private:
  template <class Do>
  void ForEach(const Do& act) {
    for (const ArrivalPtr& arrival : work_.arrivals) {
      if (arrival != nullptr) act(TensorOf(arrival).entry);
    }
  }

  horovod::common::Timeline& timeline_;
  const Work& work_;
};

}  // namespace

PlannedLane::PlannedLane(HorovodGlobalState& horovod, PlanLane& plans, NodeMemory& node,
                         LaneCounters& counters, bool verify)
    : horovod_(horovod),
      plans_(plans),
      node_(node),
      counters_(counters),
      verify_(verify),
      ranks_(horovod.global_controller->GetSize()),
      thread_(&PlannedLane::Run, this) {}

PlannedLane::~PlannedLane() {
  stop_ = true;
  node_.log().Kick();
  node_.allreduce().Kick();
  thread_.join();
}

std::string PlannedLane::Difference() const { return different_ ? difference_ : ""; }

void PlannedLane::Run() {
  pthread_setname_np(pthread_self(), "hvd-planned");
  counters_.BeginThread();
  int ticket;
  for (std::uint64_t position = 0; node_.log().Next(position, ticket, stop_, waits_); ++position) {
    Reduce(plans_.Take(ticket));
    if (different_) break;
  }
  counters_.EndThread();
}

// The ranks compare it, always: it costs nothing. Without `verify` it says which bucket of which
// pass this is, with it also which tensors.
std::uint64_t PlannedLane::Tag(const Work& work) const {
  if (verify_) return Hash(Describe(work));
  return work.pass * ReadyLog::kTickets + static_cast<std::uint64_t>(work.ticket);
}

void PlannedLane::Reduce(Work work) {
  const Reduction& reduction = work.plan->slots[work.slots[0]].reduction;
  const auto reduce_op = static_cast<ReduceOp>(reduction.reduce_op);
  const double postscale =
      reduce_op == ReduceOp::AVERAGE ? reduction.postscale / ranks_ : reduction.postscale;
  const auto segments = SegmentsOf(work);
  const auto start = Clock::now();
  bool reduced = false;
  Status status = horovod::common::SHUT_DOWN_ERROR;
  {
    TimelineScope timeline(horovod_, work);
    try {
      reduced = node_.allreduce().Run(
          segments, ArithmeticOf(static_cast<DataType>(reduction.dtype), reduce_op),
          reduction.prescale, postscale, Tag(work), stop_, waits_);
    } catch (const std::logic_error&) {
      difference_ = Describe(work);
      status = Status::UnknownError("the ranks were about to reduce different tensors; this rank " +
                                    difference_);
      different_ = true;
    }
  }
  if (reduced) {
    status = Status::OK();
    std::int64_t bytes = 0;
    for (const Segment& segment : segments) bytes += segment.bytes;
    const auto now = Clock::now();
    counters_.AddBucket(bytes, now - start, now - work.last_arrival);
    counters_.SetWakeups(waits_.wakeups);
    if (plans_.Finished(work)) counters_.AddPass();
  }
  for (const ArrivalPtr& arrival : work.arrivals) {
    if (arrival != nullptr) TensorOf(arrival).entry.FinishWithCallback(status);
  }
}

}  // namespace horovod_opt
