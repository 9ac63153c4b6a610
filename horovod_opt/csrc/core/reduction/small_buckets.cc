#include "horovod_opt/csrc/core/reduction/small_buckets.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "horovod_opt/csrc/core/waiting/sleep.h"
#include "horovod_opt/csrc/core/waiting/spin_history.h"

namespace horovod_opt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kShortly(50);

// A callback that sends the next tensor must not perform that one as well, and so on: the stack
// would grow with every tensor.
thread_local bool within_callback = false;

}  // namespace

// Only one thread of the rank changes for which bucket it spins, and says so before it counts.
bool SmallBuckets::MaySpin(int bucket_id) {
  return ranks_ > 1 && !stopped_ && !within_callback && KeepsUp() && history_[bucket_id].Pays() &&
         !spinning_.exchange(true);
}

SmallBucketPath::Readiness SmallBuckets::Announce(const Work& work, bool can_spin) {
  const auto is_ready = [](const ArrivalPtr& arrival) {
    return arrival == nullptr || arrival->HasData();
  };
  const auto& arrivals = work.arrivals;
  const int bucket_id = work.bucket->id;
  const bool spins = can_spin && MaySpin(bucket_id);
  bool has_contributed = false;
  try {
    if (work.reduction != nullptr && std::all_of(arrivals.begin(), arrivals.end(), is_ready))
      has_contributed = places_.Contribute(work.turn, *work.reduction, work.Tag());
  } catch (const std::exception&) {
    // Reduce() tries again, and fails where errors are told to all ranks.
  }
  if (spins) {
    queue_.Spin(bucket_id, rank_);
  } else {
    queue_.EndSpin(bucket_id, rank_, true, position_);  // of a thread that has just performed it
  }
  const bool is_last = queue_.Count(bucket_id, ranks_);
  if (!spins) return is_last ? Readiness::kLast : Readiness::kOthers;
  if (!is_last && has_contributed) {
    ++performing_;
    return Readiness::kSoon;
  }
  // Nobody appends the bucket before its last rank does: that has missed nothing, and wakes nobody.
  queue_.EndSpin(bucket_id, rank_, is_last, position_);
  spinning_ = false;
  return is_last ? Readiness::kLast : Readiness::kOthers;
}

bool SmallBuckets::MayPerform(const Work& work) {
  const bool may = !work.IsEmpty() && !stopped_ && !within_callback && KeepsUp() &&
                   places_.AllHaveContributed(work.turn);
  performing_ += may ? 1 : 0;
  return may;
}

void SmallBuckets::Append(int bucket_id, bool here) {
  queue_.Append(bucket_id, here ? rank_ : ReadyQueue::kNobody);
}

void SmallBuckets::Perform(Work work, bool spun) {
  const auto start = Clock::now();
  std::string error;
  within_callback = true;
  binding_.begins(work);
  try {
    places_.Reduce(work.turn, *work.reduction, work.Tag());
    plans_.MarkReduced(work, start, counters_);
  } catch (const std::exception& problem) {
    error = binding_.failed(work, problem);
  }
  binding_.ends(work);
  if (spun) LeaveSpin(work.turn, false, true);
  const auto call_back = binding_.call_back;  // this may be gone by then
  --performing_;
  call_back(work, error);
  within_callback = false;
}

bool SmallBuckets::Spin(const Turn& turn) {
  return SpinUntil([&] { return places_.AllHaveContributed(turn); }, spin_);
}

void SmallBuckets::EndSpin(const Turn& turn, bool in_vain) {
  LeaveSpin(turn, in_vain, false);
  --performing_;
}

void SmallBuckets::LeaveSpin(const Turn& turn, bool in_vain, bool performed) {
  history_[turn.bucket_id].Note(in_vain);
  queue_.EndSpin(turn.bucket_id, rank_, performed, position_);
  spinning_ = false;
}

bool SmallBuckets::Reduce(const Work& work, const std::atomic<bool>& stop, WaitCounts& waits) {
  const std::uint64_t tag = work.Tag();
  while (!places_.HasContributed(work.turn)) {
    if (places_.Contribute(work.turn, *work.reduction, tag)) break;
    if (!places_.AwaitReaders(work.turn, stop, waits)) return false;
  }
  if (!places_.AwaitAll(work.turn, stop, waits)) return false;
  places_.Reduce(work.turn, *work.reduction, tag);
  return true;
}

void SmallBuckets::Close() const {
  while (performing_ > 0) SleepFor(kShortly);
}

void SmallBuckets::DumpState(StatePage& page) const {
  page.Line(0, "ready queue: " + std::to_string(queue_.Size()) + " entries, the thread has read " +
                   std::to_string(position_));
  const int performing = performing_;
  if (performing == 0) return;
  page.Line(0, std::string("small buckets: framework threads that ") +
                   (spinning_ ? "spin for one or perform it: " : "perform one: ") +
                   std::to_string(performing));
}

}  // namespace horovod_opt
