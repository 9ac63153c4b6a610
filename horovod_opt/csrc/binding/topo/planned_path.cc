#include "horovod_opt/csrc/binding/topo/planned_path.h"

#include <pthread.h>

#include <exception>
#include <stdexcept>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/topo/arithmetic.h"
#include "horovod_opt/csrc/binding/topo/planned_call.h"
#include "horovod_opt/csrc/binding/topo/planned_tensor.h"
#include "horovod_opt/csrc/core/base/hash.h"
#include "horovod_opt/csrc/core/plan/await_data.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::Controller;
using horovod::common::ReduceOp;
using horovod::common::Response;
using horovod::common::Status;
using horovod::common::Timeline;
using Clock = PlanTable::Clock;

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

// Of this rank's tensors, or in their place.
std::int64_t BytesOf(const Work& work) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < work.slots.size(); ++i) {
    bytes += work.plan->is_call && work.arrivals[i] != nullptr
                 ? static_cast<std::int64_t>(TensorOf(work.arrivals[i]).entry.tensor->size())
                 : work.plan->slots[work.slots[i]].bytes;
  }
  return bytes;
}

Response::ResponseType TypeOf(Collective collective) {
  switch (collective) {
    case Collective::kAllgather:
      return Response::ALLGATHER;
    case Collective::kBroadcast:
      return Response::BROADCAST;
    case Collective::kReducescatter:
      return Response::REDUCESCATTER;
    case Collective::kAllreduce:
      break;
  }
  return Response::ALLREDUCE;
}

// Marks the tensors of a bucket in upstream's timeline while it lives.
class TimelineScope {
 public:
  TimelineScope(Timeline& timeline, const Work& work) : timeline_(timeline), work_(work) {
    if (!timeline_.Initialized()) return;
    const auto type = TypeOf(work.plan->slots[work.slots[0]].collective);
    const std::string activity = "PLANNED_" + Response::ResponseType_Name(type) + ", iteration " +
                                 std::to_string(work.iteration) + ", bucket " +
                                 std::to_string(work.bucket_id);
    ForEach([&](const auto& entry) {
      timeline_.Start(entry.tensor_name, type, entry.tensor->size());
      timeline_.ActivityStart(entry.tensor_name, activity);
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

  Timeline& timeline_;
  const Work& work_;
};

}  // namespace

PlannedPath::PlannedPath(const Controller& controller, Timeline& timeline, PlanTable& plans,
                         NodeMemory& node, CrossNodes* cross, PlannedOperations* operations,
                         PathCounters& counters, bool verify)
    : timeline_(timeline),
      plans_(plans),
      node_(node),
      cross_(cross),
      operations_(operations),
      counters_(counters),
      verify_(verify),
      rank_(controller.GetRank()),
      ranks_(controller.GetSize()),
      thread_(&PlannedPath::Run, this) {}

PlannedPath::~PlannedPath() {
  if (!thread_.joinable()) return;
  stop_ = true;
  end_ = true;
  node_.order().Kick();
  node_.collectives().Kick();
  if (cross_ != nullptr) cross_->Close();
  thread_.join();
}

void PlannedPath::Finish(std::chrono::seconds patience) {
  end_ = true;
  node_.order().Kick();
  if (ended_.get_future().wait_for(patience) == std::future_status::ready) thread_.join();
}

std::string PlannedPath::Failure() const { return failed_ ? failure_ : ""; }

void PlannedPath::Fail(std::string failure) {
  failure_ = std::move(failure);
  failed_ = true;
}

// No exception may leave a thread: it would end the process without a word to the other ranks.
void PlannedPath::Run() {
  pthread_setname_np(pthread_self(), "hvd-planned");
  counters_.BeginThread();
  try {
    int bucket_id;
    for (std::uint64_t position = 0; node_.order().Next(position, bucket_id, end_, waits_);
         ++position) {
      if (stop_ || !Perform(bucket_id)) break;
    }
  } catch (const std::exception& problem) {
    Fail(problem.what());
  }
  counters_.EndThread();
  ended_.set_value();
}

bool PlannedPath::Perform(int bucket_id) {
  if (bucket_id == kRoundId) {
    operations_->HandRound();
    return true;
  }
  Work work = plans_.Take(bucket_id);
  if (work.slots.empty()) return true;
  if (operations_ == nullptr || !operations_->Performs(work)) return Reduce(std::move(work));
  operations_->Hand(std::move(work));
  return true;
}

// The ranks always compare it, as that costs nothing. Without `verify` it tells the bucket and its
// iteration, with it also the tensors.
std::uint64_t PlannedPath::Tag(const Work& work) const {
  if (verify_) return Hash(Describe(work));
  return work.iteration * ReadyQueue::kIds + static_cast<std::uint64_t>(work.bucket_id);
}

bool PlannedPath::IsSameEverywhere(std::uint64_t tag) {
  std::vector<std::uint64_t> words{tag, ~tag};
  return !cross_->And(words) || (words[0] | words[1]) == ~std::uint64_t{0};
}

bool PlannedPath::Allreduce(const Work& work, std::uint64_t tag) {
  const Reduction& reduction = work.plan->slots[work.slots[0]].reduction;
  const auto dtype = static_cast<DataType>(reduction.dtype);
  const auto reduce_op = static_cast<ReduceOp>(reduction.reduce_op);
  const double postscale =
      reduce_op == ReduceOp::AVERAGE ? reduction.postscale / ranks_ : reduction.postscale;
  CrossReduce over_nodes;
  if (cross_ != nullptr) {
    over_nodes = [&](void* data, std::int64_t count) {
      return cross_->Allreduce(data, count, dtype, reduce_op);
    };
  }
  return node_.collectives().Allreduce(SegmentsOf(work), ArithmeticOf(dtype, reduce_op),
                                       reduction.prescale, postscale, over_nodes, tag, stop_,
                                       waits_);
}

bool PlannedPath::Move(Work& work, Status& status) {
  const std::uint64_t tag = Tag(work);
  const Collective collective = work.plan->slots[work.slots[0]].collective;
  status = horovod::common::SHUT_DOWN_ERROR;
  if (!AwaitData(work.arrivals, stop_)) return false;
  try {
    if (verify_ && cross_ != nullptr && !IsSameEverywhere(tag)) {
      throw std::logic_error("the nodes reduce different buckets");
    }
    if (collective == Collective::kAllreduce) {
      if (Allreduce(work, tag)) {
        status = Status::OK();
        return true;
      }
    } else {
      Status own;
      if (PerformCall(node_.collectives(), rank_, ranks_, work, tag, stop_, waits_, own)) {
        status = own;
        return true;
      }
    }
  } catch (const std::logic_error&) {
    Fail(Describe(work));
    status = Status::UnknownError(
        "Horovod: the ranks were about to reduce different tensors; this rank " + failure_);
    return false;
  }
  if (cross_ != nullptr && !cross_->problem().empty()) {
    Fail("cannot reach the other nodes (" + cross_->problem() + "), " + Describe(work));
  }
  return false;
}

bool PlannedPath::Reduce(Work work) {
  const auto start = Clock::now();
  Status status;
  bool goes_on = false;
  {
    TimelineScope timeline(timeline_, work);
    try {
      goes_on = Move(work, status);
    } catch (const std::exception& problem) {
      Fail(problem.what() + (", " + Describe(work)));
      status = ReductionFailed(failure_);
    }
  }
  if (goes_on) {
    const auto now = Clock::now();
    counters_.AddBucket(BytesOf(work), now - start, now - work.last_arrival);
    counters_.AddWakeups(waits_.wakeups - wakeups_);
    wakeups_ = waits_.wakeups;
    if (plans_.Finished(work)) counters_.AddIteration();
  }
  for (const ArrivalPtr& arrival : work.arrivals) {
    if (arrival != nullptr) TensorOf(arrival).entry.FinishWithCallback(status);
  }
  return goes_on;
}

}  // namespace horovod_opt
