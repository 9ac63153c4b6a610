#include "horovod_opt/csrc/binding/reduction/planned_path.h"

#include <pthread.h>

#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"
#include "horovod_opt/csrc/binding/reduction/planned_timeline.h"
#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt/csrc/core/cores/affinity.h"
#include "horovod_opt/csrc/core/reduction/gpu_data_wait.h"
#include "horovod_opt/csrc/core/reduction/planned_call.h"
#include "horovod_opt/csrc/core/waiting/sleep.h"

namespace horovod_opt {
namespace {

using horovod::common::Controller;
using horovod::common::Status;
using horovod::common::Timeline;

constexpr std::chrono::milliseconds kShortly(1);

// Of a call that a joined rank is missing in: an error, as in mode off.
Status Incomplete(const Work& work) {
  return Status::PreconditionError("Horovod: a rank has joined, so the " + work.bucket->plan->name +
                                   " is incomplete; only allreduces can be joined.");
}

// Of a bucket that has been moved.
Status StatusOf(const Work& work) {
  const ArrivalPtr& first = work.arrivals[0];
  return first == nullptr ? Status::OK() : TensorOf(first).problem;
}

}  // namespace

PlannedPath::PlannedPath(const Controller& controller, Timeline& timeline, PlanTable& plans,
                         NodeMemory& node, Network network, HorovodOps* horovod_ops,
                         PathCounters& counters, std::vector<int> cpus)
    : timeline_(timeline),
      plans_(plans),
      node_(node),
      horovod_ops_(horovod_ops),
      counters_(counters),
      cpus_(std::move(cpus)),
      rank_(controller.GetRank()),
      ranks_(controller.GetSize()),
      small_buckets_(plans, counters, node.ready(), node.places(), node.index(), ranks_,
                     SmallBucketBinding()) {
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
  return {[this](const Work& work) { StartInTimeline(timeline_, work); },
          [this](Work work, InternodeBuckets::Outcome outcome, Clock::time_point start) {
            EndInternode(std::move(work), outcome, start);
          },
          [this, give_back = std::move(network.give_back)](std::vector<ArrivalPtr> arrivals) {
            EndInTimeline(timeline_, arrivals);
            give_back(std::move(arrivals));
          }};
}

SmallBuckets::Binding PlannedPath::SmallBucketBinding() {
  return {[this](const Work& work) { StartInTimeline(timeline_, work); },
          [this](const Work& work, const std::exception& problem) {
            return Failed(problem, work.Describe()).reason();
          },
          [this](const Work& work) { EndInTimeline(timeline_, work); },
          [](const Work& work, const std::string& error) {
            CallBack(work, error.empty() ? Status::OK() : Status::UnknownError(error));
          }};
}

void PlannedPath::EndInternode(Work work, InternodeBuckets::Outcome outcome,
                               Clock::time_point start) {
  EndInTimeline(timeline_, work);
  switch (outcome) {
    case InternodeBuckets::Outcome::kReduced:
      plans_.MarkReduced(work, start, counters_);
      return CallBack(work, StatusOf(work));
    case InternodeBuckets::Outcome::kIncomplete:
      plans_.MarkReduced(work, start, counters_);
      return CallBack(work, Incomplete(work));
    case InternodeBuckets::Outcome::kDiffers:
      return CallBack(work, Differs(work.Describe()));
  }
}

void PlannedPath::Announce(const Work& work) {
  if (IsInternode(*work.bucket)) return internode_->Announce(work);
  const int ranks = internode_ == nullptr ? ranks_ : internode_->ranks();
  node_.ready().Ready(work.bucket->id, ranks);
}

bool PlannedPath::IsInternode(const PlannedBucket& bucket) const {
  return internode_ != nullptr && (horovod_ops_ == nullptr || !horovod_ops_->Performs(bucket));
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

void PlannedPath::DumpState(StatePage& page) const {
  small_buckets_.DumpState(page);
  const int entry = entry_;
  const std::string failure = Failure();
  const std::string thread = "thread hvd-planned: ";
  if (!failure.empty()) {
    page.Line(0, thread + "stands still: " + failure);
  } else if (entry == kNoBucket) {
    page.Line(0, thread + "waits for the next entry of the ready queue");
  } else {
    const Clock::time_point since = entry_since_;
    const std::string barrier = node_.collectives().DescribeBarrier();
    page.Line(0, thread + (InternodeBuckets::IsEnd(entry) ? "ends " : "reduces ") +
                     plans_.DumpBucket(page, entry % ReadyQueue::kIds) + ", " + page.Age(since) +
                     (barrier.empty() ? "" : "; " + barrier));
  }
  if (engine_ == nullptr) return;
  internode_->DumpState(page);
  engine_->DumpState(page);
}

std::string PlannedPath::DescribeReadiness(int bucket_id) const {
  const int ranks = internode_ == nullptr ? ranks_ : internode_->ranks();
  const auto calls = node_.ready().Calls(bucket_id) % static_cast<std::uint64_t>(ranks);
  if (calls == 0) return "";
  return "; " + std::to_string(calls) + " of the " + std::to_string(ranks) +
         " ranks that share memory have it";
}

bool PlannedPath::Take(int entry, WaitCounts& waits) {
  entry_since_.store(Clock::now(), std::memory_order_relaxed);
  entry_.store(entry, std::memory_order_relaxed);
  const bool goes_on = Perform(entry, waits);
  entry_.store(kNoBucket, std::memory_order_relaxed);
  return goes_on;
}

bool PlannedPath::Perform(int entry, WaitCounts& waits) {
  if (entry == ReadyQueue::kRoundId) {
    horovod_ops_->HandRound();
    return true;
  }
  if (internode_ != nullptr &&
      (InternodeBuckets::IsEnd(entry) || IsInternode(*plans_.Look(entry).bucket))) {
    return PerformInternode(entry, waits);
  }
  Work work = plans_.Take(entry);
  if (work.IsEmpty()) return true;
  if (horovod_ops_ != nullptr && horovod_ops_->Performs(*work.bucket)) {
    horovod_ops_->Hand(std::move(work));
    return true;
  }
  const auto start = Clock::now();
  Status status;
  bool goes_on = false;
  StartInTimeline(timeline_, work);
  try {
    goes_on = Move(work, status, waits);
  } catch (const std::exception& problem) {
    status = Failed(problem, work.Describe());
  }
  EndInTimeline(timeline_, work);
  if (goes_on) plans_.MarkReduced(work, start, counters_);
  CallBack(work, status);
  return goes_on;
}

bool PlannedPath::PerformInternode(int entry, WaitCounts& waits) {
  Status status;
  try {
    if (InternodeBuckets::IsEnd(entry)) return internode_->End(entry, stop_, waits);
    return internode_->Begin(entry, stop_, waits);
  } catch (const std::exception& problem) {
    status = Failed(problem, internode_->Describe(entry));
  }
  const Work work = internode_->Drop(entry);
  EndInTimeline(timeline_, work);
  CallBack(work, status);
  return false;
}

bool PlannedPath::Allreduce(const Work& work, WaitCounts& waits) {
  if (work.reduction == nullptr) throw std::runtime_error("no arithmetic for this data type");
  if (work.turn.HasPlace()) return small_buckets_.Reduce(work, stop_, waits);
  return node_.collectives().Allreduce(*work.reduction, work.Tag(), stop_, waits);
}

Status PlannedPath::Differs(const std::string& bucket) {
  Fail(bucket);
  return Status::UnknownError(
      "Horovod: the ranks were about to reduce different tensors; this rank " + Failure());
}

Status PlannedPath::Failed(const std::exception& problem, const std::string& bucket) {
  if (dynamic_cast<const std::logic_error*>(&problem) != nullptr) return Differs(bucket);
  Fail(problem.what() + (", " + bucket));
  return ReductionFailed(Failure());
}

bool PlannedPath::Move(const Work& work, Status& status, WaitCounts& waits) {
  status = horovod::common::SHUT_DOWN_ERROR;
  if (!AwaitData(work.arrivals, stop_)) return false;
  if (!work.bucket->IsCall()) {
    if (!Allreduce(work, waits)) return false;
    status = Status::OK();
    return true;
  }
  const auto outcome = PerformCall({node_.collectives(), rank_, ranks_, stop_}, work, waits);
  if (outcome == NodeCollectives::Outcome::kStopped) return false;
  const bool is_incomplete = outcome == NodeCollectives::Outcome::kIncomplete;
  status = is_incomplete ? Incomplete(work) : StatusOf(work);
  return true;
}

void PlannedPath::CallBack(const Work& work, const Status& status) {
  for (const ArrivalPtr& arrival : work.arrivals) {
    if (arrival != nullptr) TensorOf(arrival).entry.FinishWithCallback(status);
  }
}

}  // namespace horovod_opt
