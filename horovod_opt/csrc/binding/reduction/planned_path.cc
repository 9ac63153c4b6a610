#include "horovod_opt/csrc/binding/reduction/planned_path.h"

#include <pthread.h>

#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/reduction/arithmetic.h"
#include "horovod_opt/csrc/binding/reduction/planned_bucket.h"
#include "horovod_opt/csrc/binding/reduction/planned_call.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"
#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt/csrc/core/cores/affinity.h"
#include "horovod_opt/csrc/core/reduction/gpu_data_wait.h"
#include "horovod_opt/csrc/core/waiting/sleep.h"

namespace horovod_opt {
namespace {

using horovod::common::Controller;
using horovod::common::DataType;
using horovod::common::ReduceOp;
using horovod::common::Status;
using horovod::common::Timeline;

constexpr std::chrono::milliseconds kShortly(1);

}  // namespace

PlannedPath::PlannedPath(const Controller& controller, Timeline& timeline, PlanTable& plans,
                         NodeMemory& node, Network network, HorovodOps* horovod_ops,
                         PathCounters& counters, bool verify, std::vector<int> cpus)
    : timeline_(timeline),
      plans_(plans),
      node_(node),
      horovod_ops_(horovod_ops),
      counters_(counters),
      verify_(verify),
      cpus_(std::move(cpus)),
      rank_(controller.GetRank()),
      ranks_(controller.GetSize()),
      small_buckets_(node.ready(), node.places(), node.index(), ranks_,
                     {[this](const auto& plan, const auto& slots, const auto& arrivals) {
                        return ReductionOf(plan, slots, arrivals);
                      },
                      [this](const auto& plan, int bucket_id, std::uint64_t iteration,
                             const auto& slots, const auto& arrivals) {
                        return Tag(plan, bucket_id, iteration, slots, arrivals);
                      },
                      [this](Work work, const auto& done) {
                        WaitCounts none;
                        const Status status = Reduce(work, none).second;
                        done();
                        CallBack(work, status);
                      }}) {
  if (network.transport != nullptr) {
    engine_ = std::make_unique<ProgressEngine>(
        std::move(network.transport), network.memory, [this] { counters_.BeginThread(); },
        [this] { counters_.EndThread(); }, std::move(network.hear));
    internode_ = std::make_unique<InternodeBuckets>(
        plans, node.order(), node.collectives(), *engine_, std::move(network.all_ranks),
        node.index(), network.group, network.groups, InternodeBinding(network));
  } else if (horovod_ops == nullptr || !horovod_ops->performs_all()) {
    plans.UseSmallBucketPath(small_buckets_, BucketPlaces::kMemory);
  }
  thread_ = std::thread(&PlannedPath::Run, this);
}

PlannedPath::~PlannedPath() {
  small_buckets_.Close();
  if (thread_.joinable()) {
    stop_ = true;
    end_ = true;
    node_.order().Kick();
    node_.collectives().Kick();
    node_.places().Kick();
    thread_.join();
  }
  if (engine_ != nullptr) engine_->Close();
}

InternodeBuckets::Binding PlannedPath::InternodeBinding(Network& network) {
  InternodeBuckets::Binding binding;
  binding.reduction = [this](const CompleteBucket& bucket) {
    return ReductionOf(bucket.plan, bucket.slots, bucket.arrivals);
  };
  binding.call = CallOf;
  binding.memory = [](const CompleteBucket& bucket) { return MemoryOf(bucket.arrivals); };
  binding.tag = [this](const CompleteBucket& bucket) {
    return Tag(bucket.plan, bucket.turn.bucket_id, bucket.iteration, bucket.slots,
               bucket.arrivals);
  };
  binding.begins = [this](const CompleteBucket& bucket) {
    StartInTimeline(timeline_, bucket.plan, bucket.turn.bucket_id, bucket.iteration, bucket.slots,
                    bucket.arrivals);
  };
  binding.reduced = [this](Work work, Clock::time_point start) {
    EndInTimeline(timeline_, work.arrivals);
    Count(work, start);
    const ArrivalPtr& first = work.arrivals[0];
    CallBack(work, first == nullptr ? Status::OK() : TensorOf(first).problem);
  };
  binding.incomplete = [this](Work work, Clock::time_point start) {
    EndInTimeline(timeline_, work.arrivals);
    Count(work, start);
    CallBack(work, Incomplete(work));
  };
  binding.differs = [this](Work work) {
    EndInTimeline(timeline_, work.arrivals);
    CallBack(work, Differs(Describe(work)));
  };
  binding.given_back = [this, give_back =
                                  std::move(network.give_back)](std::vector<ArrivalPtr> arrivals) {
    EndInTimeline(timeline_, arrivals);
    give_back(std::move(arrivals));
  };
  return binding;
}

void PlannedPath::Announce(const CompleteBucket& bucket) {
  if (IsInternode(bucket)) return internode_->Announce(bucket);
  const int ranks = internode_ == nullptr ? ranks_ : internode_->ranks();
  node_.ready().Ready(bucket.turn.bucket_id, ranks);
}

bool PlannedPath::IsInternode(const CompleteBucket& bucket) const {
  return internode_ != nullptr &&
         (horovod_ops_ == nullptr || !horovod_ops_->Performs(bucket.plan, bucket.slots));
}

void PlannedPath::Await(const std::vector<int>& bucket_ids, std::chrono::seconds patience) const {
  const auto until = Clock::now() + patience;
  while (plans_.AnyUntaken(bucket_ids) && Clock::now() < until && Failure().empty()) {
    SleepFor(kShortly);
  }
}

void PlannedPath::Finish(std::chrono::seconds patience) {
  end_ = true;
  node_.order().Kick();
  if (thread_end_.get_future().wait_for(patience) == std::future_status::ready) thread_.join();
}

std::string PlannedPath::Failure() const {
  const std::string unreachable = engine_ == nullptr ? "" : engine_->Failure();
  std::lock_guard<std::mutex> lock(failure_mutex_);
  if (!failure_.empty() || unreachable.empty()) return failure_;
  return "cannot reach the other nodes (" + unreachable + ")";
}

void PlannedPath::Fail(std::string failure) {
  std::lock_guard<std::mutex> lock(failure_mutex_);
  if (failure_.empty()) failure_ = std::move(failure);
  failed_ = true;
  small_buckets_.Stop();
}

// No exception may leave a thread: it would end the process without a word to the other ranks.
void PlannedPath::Run() {
  Settle();
  pthread_setname_np(pthread_self(), "hvd-planned");  // who finds the name finds its CPUs, too
  counters_.BeginThread();
  try {
    int entry;
    WaitCounts waits;
    const int reader = node_.index();
    std::uint64_t position = 0;
    while (node_.order().Next(position, entry, end_, waits, reader)) {
      small_buckets_.CameTo(++position);
      if (stop_ || failed_ || !Take(entry, waits)) break;
      counters_.AddWakeups(std::exchange(waits.wakeups, 0));
    }
  } catch (const std::exception& problem) {
    Fail(problem.what());
  }
  counters_.EndThread();
  thread_end_.set_value();
}

// The kernel leaves a thread where it ran last, and what it wakes mostly near it. So the threads of
// all ranks would come to be on one core, with those of the frameworks, and another core be idle.
void PlannedPath::Settle() const {
  AskForShortSlice();
  if (cpus_.empty()) return;
  try {
    Pin(0, cpus_);
  } catch (const std::system_error&) {
    // The CPUs of the process have changed meanwhile: it runs where they are now.
  }
}

bool PlannedPath::Take(int entry, WaitCounts& waits) {
  if (entry == ReadyQueue::kRoundId) {
    horovod_ops_->HandRound();
    return true;
  }
  if (internode_ != nullptr &&
      (InternodeBuckets::IsEnd(entry) || IsInternode(plans_.Look(entry)))) {
    return PerformInternode(entry, waits);
  }
  Work work = plans_.Take(entry);
  if (work.slots.empty()) return true;
  if (horovod_ops_ != nullptr && horovod_ops_->Performs(*work.plan, work.slots)) {
    horovod_ops_->Hand(std::move(work));
    return true;
  }
  const auto [goes_on, status] = Reduce(work, waits);
  CallBack(work, status);
  return goes_on;
}

bool PlannedPath::PerformInternode(int entry, WaitCounts& waits) {
  Status status;
  try {
    if (InternodeBuckets::IsEnd(entry)) return internode_->End(entry, stop_, waits);
    return internode_->Begin(entry, stop_, waits);
  } catch (const std::logic_error&) {
    status = Differs(internode_->Describe(entry));
  } catch (const std::exception& problem) {
    Fail(problem.what() + (", " + internode_->Describe(entry)));
    status = ReductionFailed(Failure());
  }
  const Work work = internode_->Drop(entry);
  EndInTimeline(timeline_, work.arrivals);
  CallBack(work, status);
  return false;
}

// The ranks always compare it, as that costs nothing. Without `verify` it tells the bucket and its
// iteration, with it also the tensors; of a call without a name always its number, too. (A rank
// that has joined has no arrival to tell it: such plans end when one joins.)
std::uint64_t PlannedPath::Tag(const Plan& plan, int bucket_id, std::uint64_t iteration,
                               const std::vector<int>& slots,
                               const std::vector<ArrivalPtr>& arrivals) const {
  constexpr std::uint64_t kSpread = 0x9e3779b97f4a7c15;  // odd: no two numbers become one
  const bool has_number = !arrivals.empty() && arrivals[0] != nullptr;
  const auto number = has_number ? static_cast<std::uint64_t>(arrivals[0]->number) * kSpread : 0;
  if (verify_) return Hash(Identity(plan, bucket_id, iteration, slots)) + number;
  return iteration * ReadyQueue::kIds + static_cast<std::uint64_t>(bucket_id) + number;
}

bool PlannedPath::Allreduce(const Work& work, std::uint64_t tag, WaitCounts& waits) {
  if (work.turn.HasPlace()) return small_buckets_.Reduce(work, tag, stop_, waits);
  return node_.collectives().Allreduce(ReductionOf(*work.plan, work.slots, work.arrivals), tag,
                                       stop_, waits);
}

Status PlannedPath::Differs(const std::string& bucket) {
  Fail(bucket);
  return Status::UnknownError(
      "Horovod: the ranks were about to reduce different tensors; this rank " + Failure());
}

void PlannedPath::Count(const Work& work, Clock::time_point start) {
  const auto now = Clock::now();
  counters_.AddBucket(BytesOf(work), now - start, now - work.last_arrival);
  if (plans_.MarkReduced(work)) counters_.AddIteration();
}

BucketReduction PlannedPath::ReductionOf(const Plan& plan, const std::vector<int>& slots,
                                         const std::vector<ArrivalPtr>& arrivals) const {
  const Reduction& reduction = plan.slots[slots[0]].reduction;  // all slots are alike
  const auto reduce_op = static_cast<ReduceOp>(reduction.reduce_op);
  const double postscale =
      reduce_op == ReduceOp::AVERAGE ? reduction.postscale / ranks_ : reduction.postscale;
  return {SegmentsOf(plan, slots, arrivals),
          ArithmeticOf(static_cast<DataType>(reduction.dtype), reduce_op), reduction.prescale,
          postscale};
}

bool PlannedPath::Move(Work& work, Status& status, WaitCounts& waits) {
  const std::uint64_t tag =
      Tag(*work.plan, work.bucket_id, work.iteration, work.slots, work.arrivals);
  const Collective collective = work.plan->slots[work.slots[0]].collective;
  status = horovod::common::SHUT_DOWN_ERROR;
  if (!AwaitData(work.arrivals, stop_)) return false;
  try {
    Status own = Status::OK();
    const bool success =
        collective == Collective::kAllreduce
            ? Allreduce(work, tag, waits)
            : PerformCall({node_.collectives(), rank_, ranks_, stop_}, work, tag, waits, own);
    if (success) {
      status = own;
      return true;
    }
  } catch (const std::logic_error&) {
    status = Differs(Describe(work));
  }
  return false;
}

std::pair<bool, Status> PlannedPath::Reduce(Work& work, WaitCounts& waits) {
  const auto start = Clock::now();
  Status status;
  bool goes_on = false;
  StartInTimeline(timeline_, *work.plan, work.bucket_id, work.iteration, work.slots, work.arrivals);
  try {
    goes_on = Move(work, status, waits);
  } catch (const std::exception& problem) {
    Fail(problem.what() + (", " + Describe(work)));
    status = ReductionFailed(Failure());
  }
  EndInTimeline(timeline_, work.arrivals);
  if (goes_on) Count(work, start);
  return {goes_on, status};
}

void PlannedPath::CallBack(const Work& work, const Status& status) {
  for (const ArrivalPtr& arrival : work.arrivals) {
    if (arrival != nullptr) TensorOf(arrival).entry.FinishWithCallback(status);
  }
}

}  // namespace horovod_opt
