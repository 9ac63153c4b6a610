#include "horovod_opt/csrc/core/plan/direct_buckets.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "horovod_opt/csrc/core/waiting/sleep.h"

namespace horovod_opt {
namespace {

constexpr std::chrono::microseconds kShortly(50);

// A callback that sends the next tensor must not perform that one as well, and so on: the stack
// would grow with every tensor.
thread_local bool within_callback = false;

}  // namespace

bool DirectBuckets::Announce(const CompleteBucket& bucket) {
  const auto is_ready = [](const ArrivalPtr& arrival) {
    return arrival == nullptr || arrival->DataReady();
  };
  const auto& arrivals = bucket.arrivals;
  const int bucket_id = bucket.turn.bucket_id;
  try {
    if (!arrivals.empty() && std::all_of(arrivals.begin(), arrivals.end(), is_ready)) {
      places_.Contribute(bucket.turn, binding_.reduction(bucket.plan, bucket.slots, arrivals),
                         binding_.tag(bucket.plan, bucket_id, bucket.iteration, bucket.slots));
    }
  } catch (const std::exception&) {
    // Reduce() tries again, and fails where errors are told to all ranks.
  }
  return queue_.Count(bucket_id, ranks_);
}

bool DirectBuckets::MayPerform(const CompleteBucket& bucket) {
  const bool may = !bucket.arrivals.empty() && !stopped_ && !within_callback &&
                   queue_.Size() - position_ < kMostBehind &&
                   places_.AllHaveContributed(bucket.turn);
  performing_ += may ? 1 : 0;
  return may;
}

void DirectBuckets::Append(int bucket_id, bool here) {
  queue_.Append(bucket_id, here ? rank_ : ReadyQueue::kNobody);
}

void DirectBuckets::Perform(Work work) {
  within_callback = true;
  binding_.perform(std::move(work), [this] { --performing_; });
  within_callback = false;
}

bool DirectBuckets::Reduce(const Work& work, std::uint64_t tag, const std::atomic<bool>& stop,
                           WaitCounts& waits) {
  const BucketReduction bucket = binding_.reduction(*work.plan, work.slots, work.arrivals);
  while (!places_.HasContributed(work.turn)) {
    if (places_.Contribute(work.turn, bucket, tag)) break;
    if (!places_.AwaitReaders(work.turn, stop, waits)) return false;
  }
  if (!places_.AwaitAll(work.turn, stop, waits)) return false;
  places_.Reduce(work.turn, bucket, tag);
  return true;
}

void DirectBuckets::Close() const {
  while (performing_ > 0) SleepFor(kShortly);
}

}  // namespace horovod_opt
