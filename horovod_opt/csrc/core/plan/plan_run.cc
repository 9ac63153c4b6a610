#include "horovod_opt/csrc/core/plan/plan_run.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace horovod_opt {
namespace {

// One is not enough: TensorFlow executes an allreduce of a constant once, while it optimizes the
// graph, and never again.
constexpr std::uint64_t kWarmUpIterations = 2;
constexpr std::uint64_t kTimedIterations = 5;

std::string Text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (std::int64_t dimension : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(dimension);
  }
  return "[" + text + "]";
}

}  // namespace

std::string Describe(const Work& work) {
  std::string text = "plan " + work.plan->hash + " (" + work.plan->name + "), iteration " +
                     std::to_string(work.iteration) + ", bucket " + std::to_string(work.bucket_id) +
                     ": ";
  const char* separator = "";
  for (int slot : work.slots) {
    text += separator + work.plan->slots[slot].name;
    separator = ", ";
  }
  return text;
}

PlanRun::PlanRun(Plan plan)
    : plan_(std::move(plan)),
      places_(plan_.slots.size()),
      unseen_(static_cast<int>(plan_.slots.size())),
      times_last_(plan_.slots.size(), 0),
      offset_sum_us_(plan_.slots.size(), 0),
      offsets_(plan_.slots.size(), 0) {}

std::string PlanRun::See(int slot, int device, const std::vector<std::int64_t>& shape) {
  Place& place = places_[slot];
  if (place.arrivals == 0) plan_.slots[slot].reduction.device = device;
  if (!place.seen) place.shape = shape;
  place.seen = true;
  if (shape == place.shape) return "";
  return "it has the shape " + Text(shape) + ", and had " + Text(place.shape) +
         " in its first iteration";
}

PlanRun::Arrived PlanRun::Arrive(int slot, const std::string& difference, ArrivalPtr& arrival,
                                 Clock::time_point now) {
  Arrived result;
  Place& place = places_[slot];
  const std::uint64_t iteration = place.arrivals + 1;
  if (place.busy && !deferring_ && IsPlanned(iteration)) {
    result.route = Route::kOverlaps;
    return result;
  }
  place.arrivals = iteration;
  last_arrival_ = now;
  if (!difference.empty() && !deferring_ && IsPlanned(iteration)) {
    Differs(slot, difference);
    result.news = true;
  }
  if (state_ == PlanState::kCaptured) result.news = WarmUp(slot, iteration, difference);
  if (state_ == PlanState::kReady && iteration == kPatientIterations && begun_ < iteration)
    result.news = true;
  if (state_ == PlanState::kResting) {
    state_ = PlanState::kReady;
    result.news = true;
  }
  if (deferring_) {
    waiting_.push_back({slot, iteration, difference, std::move(arrival)});
    result.route = Route::kDeferred;
    return result;
  }
  begun_ = std::max(begun_, iteration);
  if (!IsPlanned(iteration)) return result;
  result.route = Route::kPlanned;
  result.bucket_id = Put(slot, iteration, std::move(arrival), now);
  return result;
}

void PlanRun::Differs(int slot, const std::string& difference) {
  state_ = PlanState::kEnding;
  reason_ = "'" + plan_.slots[slot].name + "': " + difference;
  deferring_ = true;
}

bool PlanRun::WarmUp(int slot, std::uint64_t iteration, const std::string& difference) {
  if (!difference.empty()) {
    Fail("'" + plan_.slots[slot].name + "': " + difference);
  } else if (iteration == kWarmUpIterations) {
    if (--unseen_ > 0) return false;
    state_ = PlanState::kReady;
    const std::string mixture = Mixture();
    if (!mixture.empty()) Fail(mixture);
  } else if (iteration > kWarmUpIterations && unseen_ > 0) {
    const auto is_absent = [](const Place& place) { return place.arrivals < kWarmUpIterations; };
    const auto absent = std::find_if(places_.begin(), places_.end(), is_absent);
    Fail("'" + plan_.slots[absent - places_.begin()].name + "' is not executed in each iteration");
  } else {
    return false;
  }
  return true;
}

std::string PlanRun::Mixture() const {
  for (const auto& bucket : buckets()) {
    const Slot& first = plan_.slots[bucket[0]];
    for (int slot : bucket) {
      const Slot& other = plan_.slots[slot];
      if (other.reduction.device == first.reduction.device) continue;
      return "'" + first.name + "' is " + first.reduction.Where() + ", and '" + other.name +
             "' in its bucket " + other.reduction.Where();
    }
  }
  return "";
}

PlanRun::Bucketing& PlanRun::BucketingOf(std::uint64_t iteration) {
  auto bucketing = bucketings_.rbegin();
  while (bucketing->from_iteration > iteration) ++bucketing;
  return *bucketing;
}

PlanRun::Bucket* PlanRun::BucketOf(int bucket_id, Bucketing*& bucketing, std::size_t& index) {
  for (Bucketing& one : bucketings_) {
    for (std::size_t i = 0; i < one.state.size(); ++i) {
      if (one.state[i].bucket_id != bucket_id) continue;
      bucketing = &one;
      index = i;
      return &one.state[i];
    }
  }
  return nullptr;
}

template <class Do>
void PlanRun::ForEachBucket(const Do& act) {
  for (Bucketing& bucketing : bucketings_) {
    for (std::size_t i = 0; i < bucketing.state.size(); ++i)
      act(bucketing.state[i], bucketing.buckets[i]);
  }
}

void PlanRun::Empty(Bucket& bucket, const std::vector<int>& slots) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (bucket.filled[i]) places_[slots[i]].busy = false;
  }
  bucket.arrivals.clear();
  bucket.arrivals.resize(slots.size());
  bucket.filled.assign(slots.size(), false);
  bucket.missing = static_cast<int>(slots.size());
}

int PlanRun::Put(int slot, std::uint64_t iteration, ArrivalPtr arrival, Clock::time_point now) {
  Time(slot, iteration, now);
  places_[slot].busy = true;
  Bucketing& bucketing = BucketingOf(iteration);
  const auto [index, position] = bucketing.where[slot];
  Bucket& bucket = bucketing.state[index];
  const int size = static_cast<int>(bucket.arrivals.size());
  if (bucket.missing == size) {
    bucket.iteration = iteration;
    bucket.first_arrival = now;
  }
  bucket.arrivals[position] = std::move(arrival);
  bucket.filled[position] = true;
  if (--bucket.missing > 0) return kNoBucket;
  bucket.last_arrival = now;
  ++times_last_[slot];
  ++bucket.completed;
  ++outstanding_;
  return bucket.bucket_id;
}

void PlanRun::Time(int slot, std::uint64_t iteration, Clock::time_point now) {
  if (rebuild_asked_ || iteration < timed_iteration_) return;
  if (iteration > timed_iteration_) {
    timed_iteration_ = iteration;
    iteration_start_ = now;
  }
  offset_sum_us_[slot] +=
      std::chrono::duration_cast<std::chrono::microseconds>(now - iteration_start_).count();
  ++offsets_[slot];
}

Work PlanRun::Take(int bucket_id, std::vector<int>& bucket_ids) {
  Bucketing* bucketing = nullptr;
  std::size_t index = 0;
  Bucket* const bucket = BucketOf(bucket_id, bucketing, index);
  if (bucket == nullptr) throw std::logic_error("a bucket is due that no plan has");
  Work work;
  work.plan = &plan_;
  work.bucket_id = bucket_id;
  work.iteration = bucket->iteration;
  if (bucket->taken_back) {
    bucket->taken_back = false;
    --outstanding_;
    return work;
  }
  if (bucket->missing != 0) throw std::logic_error("a bucket is due that is not complete here");
  work.slots = bucketing->buckets[index];
  work.arrivals = std::move(bucket->arrivals);
  work.last_arrival = bucket->last_arrival;
  Empty(*bucket, work.slots);
  if (zeros_ && !deferring_) bucket_ids = SupplyZeros();
  return work;
}

PlanRun::Progress PlanRun::Finished(const Work& work) {
  Progress progress;
  --outstanding_;
  Bucketing* bucketing = nullptr;  // none if all ranks have joined meanwhile
  std::size_t index = 0;
  if (BucketOf(work.bucket_id, bucketing, index) != nullptr) {
    progress.iteration_over = ++bucketing->done % bucketing->buckets.size() == 0;
  }
  iterations_done_ += progress.iteration_over;
  if (!rebuild_asked_ && iterations_done_ >= kTimedIterations) {
    rebuild_asked_ = true;
    progress.news = state_ == PlanState::kActive && plan_.slots.size() > 1;
  }
  return progress;
}

std::vector<int> PlanRun::SupplyZeros() {
  zeros_ = planned_until_ != kNever;
  std::vector<int> bucket_ids;
  for (std::size_t slot = 0; zeros_ && slot < places_.size(); ++slot) {
    Place& place = places_[slot];
    const std::uint64_t iteration = std::max(place.arrivals + 1, planned_from_);
    if (place.busy || iteration >= planned_until_) continue;
    place.arrivals = iteration;
    const int bucket_id = Put(static_cast<int>(slot), iteration, nullptr, Clock::now());
    if (bucket_id != kNoBucket) bucket_ids.push_back(bucket_id);
  }
  return bucket_ids;
}

Vote PlanRun::CastVote(bool joined, bool times, Clock::time_point now) {
  deferring_ = true;
  Vote vote;
  vote.hash = plan_.hash;
  vote.state = state_;
  vote.begun = begun_;
  vote.reason = reason_;
  const auto on_gpu = [](const Slot& slot) { return slot.reduction.OnGpu(); };
  if (std::any_of(plan_.slots.begin(), plan_.slots.end(), on_gpu)) {
    for (const Slot& slot : plan_.slots) vote.devices.push_back(slot.reduction.device);
  }
  bool filled = false;
  ForEachBucket([&](const Bucket& bucket, const std::vector<int>& slots) {
    vote.completed.push_back(bucket.completed);
    filled = filled || bucket.missing < static_cast<int>(slots.size());
  });
  vote.under_way = filled || outstanding_ > 0 || !waiting_.empty();
  vote.whole = std::all_of(places_.begin(), places_.end(), [&](const Place& place) {
    return place.arrivals == places_[0].arrivals;
  });
  vote.idle_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_arrival_).count();
  if (joined && state_ == PlanState::kActive) {
    vote.state = PlanState::kPausing;
    vote.reason = "has joined";
  } else if (joined && state_ == PlanState::kReady) {
    vote.state = PlanState::kCaptured;
  }
  if (times && rebuild_asked_ && !rebuilt_) {
    for (std::size_t slot = 0; slot < offsets_.size(); ++slot) {
      vote.times.push_back(offset_sum_us_[slot] / std::max<std::int64_t>(offsets_[slot], 1));
    }
  }
  return vote;
}

PlanRun::Released PlanRun::Apply(const Decision& decision, std::vector<int> bucket_ids,
                                 Buckets rebuilt) {
  Released released;
  switch (decision.kind) {
    case Decision::kWait:
      if (state_ < PlanState::kActive && state_ != PlanState::kResting) reason_ = decision.reason;
      break;
    case Decision::kCommit:
      if (state_ == PlanState::kReady) reason_.clear();
      state_ = state_ == PlanState::kReady ? PlanState::kActive : PlanState::kEnding;
      planned_from_ = decision.from_iteration;
      planned_until_ = kNever;
      for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
        plan_.slots[slot].devices = decision.devices.empty() ? nullptr : decision.devices[slot];
      }
      if (bucketings_.empty()) AddBucketing(0, bucket_ids, Buckets(buckets()));
      break;
    case Decision::kRebuild:
      rebuilt_ = true;
      AddBucketing(decision.from_iteration, bucket_ids, std::move(rebuilt));
      break;
    case Decision::kPause:
      if (state_ == PlanState::kActive) reason_ = decision.reason;
      state_ = state_ == PlanState::kActive ? PlanState::kCaptured : PlanState::kFailed;
      planned_until_ = decision.from_iteration;
      break;
    case Decision::kRest:
      if (state_ == PlanState::kActive) {
        state_ = PlanState::kResting;
        reason_ = decision.reason;
      }
      planned_from_ = planned_until_ = kNever;
      rested_ = Buckets(buckets());
      Free(released);
      break;
    case Decision::kEnd:
      if (state_ != PlanState::kEnded) reason_ = decision.reason;
      state_ = PlanState::kEnded;
      planned_from_ = planned_until_ = kNever;
      zeros_ = false;
      TakeBack(decision, released);
      break;
    case Decision::kFree:
      Free(released);
      break;
    case Decision::kForget:
      Forget(released);
      break;
  }
  Release(released);
  return released;
}

// Everything complete on all ranks stays: it is reduced.
void PlanRun::TakeBack(const Decision& decision, Released& released) {
  std::size_t number = 0;
  ForEachBucket([&](Bucket& bucket, const std::vector<int>& slots) {
    const std::uint64_t everywhere = decision.everywhere.at(number);
    const std::uint64_t anywhere = decision.anywhere.at(number++);
    const bool complete_everywhere = bucket.completed == everywhere && bucket.missing == 0;
    if (complete_everywhere) return;
    for (ArrivalPtr& arrival : bucket.arrivals) {
      if (arrival != nullptr) released.negotiated.push_back(std::move(arrival));
    }
    Empty(bucket, slots);
    if (anywhere == everywhere) return;
    bucket.taken_back = true;
    if (bucket.completed == anywhere) return;
    bucket.completed = anywhere;
    ++outstanding_;
    released.owed.push_back(bucket.bucket_id);
    released.news = true;
  });
}

void PlanRun::Free(Released& released) {
  ForEachBucket([&](const Bucket& bucket, const std::vector<int>&) {
    released.freed.push_back(bucket.bucket_id);
  });
  bucketings_.clear();
}

// Starts anew, as a rank does that hears of the plan only now. What has arrived since CastVote() is
// the first that counts.
void PlanRun::Forget(Released& released) {
  Free(released);
  std::vector<DeferredArrival> waiting = std::move(waiting_);
  *this = PlanRun(std::move(plan_));
  for (DeferredArrival& one : waiting) {
    See(one.slot, plan_.slots[one.slot].reduction.device, one.arrival->shape);
    Arrive(one.slot, one.difference, one.arrival, Clock::now());
    released.negotiated.push_back(std::move(one.arrival));
  }
}

// Lets the deferred arrivals go, unless the plan has to end first.
void PlanRun::Release(Released& released) {
  for (const DeferredArrival& one : waiting_) {
    if (one.difference.empty() || !IsPlanned(one.iteration)) continue;
    Differs(one.slot, one.difference);
    released.news = true;
    break;
  }
  deferring_ = state_ == PlanState::kEnding;
  if (deferring_) return;
  for (DeferredArrival& one : waiting_) {
    begun_ = std::max(begun_, one.iteration);
    if (!IsPlanned(one.iteration)) {
      released.negotiated.push_back(std::move(one.arrival));
    } else if (places_[one.slot].busy) {
      --places_[one.slot].arrivals;
      released.overlapping.push_back(std::move(one.arrival));
    } else {
      const int bucket_id = Put(one.slot, one.iteration, std::move(one.arrival), Clock::now());
      if (bucket_id != kNoBucket) released.bucket_ids.push_back(bucket_id);
    }
  }
  waiting_.clear();
}

void PlanRun::AddBucketing(std::uint64_t from_iteration, const std::vector<int>& bucket_ids,
                           Buckets buckets) {
  Bucketing bucketing;
  bucketing.from_iteration = from_iteration;
  bucketing.where.resize(plan_.slots.size());
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    const std::size_t size = buckets[index].size();
    for (std::size_t position = 0; position < size; ++position) {
      bucketing.where[buckets[index][position]] = {static_cast<int>(index),
                                                   static_cast<int>(position)};
    }
    Bucket bucket;
    bucket.bucket_id = bucket_ids.at(index);
    bucket.arrivals.resize(size);
    bucket.filled.assign(size, false);
    bucket.missing = static_cast<int>(size);
    bucketing.state.push_back(std::move(bucket));
  }
  bucketing.buckets = std::move(buckets);
  bucketings_.push_back(std::move(bucketing));
}

void PlanRun::Restart() {
  for (Place& place : places_) place.arrivals = 0;
  begun_ = timed_iteration_ = 0;
  zeros_ = false;
  planned_from_ = planned_until_ = kNever;
  unseen_ = static_cast<int>(places_.size());
  if (std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.busy; })) {
    if (state_ != PlanState::kEnded) Fail("an iteration was under way when all ranks had joined");
    return;
  }
  for (Bucketing& bucketing : bucketings_) bucketing.from_iteration = 0;
  // Active still: all have joined in the round in which they said so.
  if (state_ != PlanState::kEnding && state_ < PlanState::kFailed) state_ = PlanState::kCaptured;
}

void PlanRun::Fail(const std::string& reason) {
  state_ = PlanState::kFailed;
  reason_ = reason;
}

void PlanRun::End(const std::string& reason) {
  if (state_ == PlanState::kEnded) return;
  if (state_ != PlanState::kActive && state_ != PlanState::kEnding) return Fail(reason);
  state_ = PlanState::kEnding;
  reason_ = reason;
  deferring_ = true;
}

std::vector<ArrivalPtr> PlanRun::Drain() {
  std::vector<ArrivalPtr> all;
  for (DeferredArrival& one : waiting_) all.push_back(std::move(one.arrival));
  waiting_.clear();
  for (Bucketing& bucketing : bucketings_) {
    for (Bucket& bucket : bucketing.state) {
      for (ArrivalPtr& arrival : bucket.arrivals) {
        if (arrival != nullptr) all.push_back(std::move(arrival));
      }
    }
  }
  return all;
}

std::vector<std::string> PlanRun::NamesWaitingSince(Clock::time_point since) const {
  std::vector<std::string> names;
  for (const Bucketing& bucketing : bucketings_) {
    for (const Bucket& bucket : bucketing.state) {
      if (bucket.first_arrival > since) continue;
      for (const ArrivalPtr& arrival : bucket.arrivals) {
        if (arrival != nullptr) names.push_back(arrival->Name());
      }
    }
  }
  return names;
}

std::vector<PlanRun::Waiting> PlanRun::WaitingSince(Clock::time_point since) const {
  std::vector<Waiting> waiting;
  for (const Bucketing& bucketing : bucketings_) {
    for (std::size_t index = 0; index < bucketing.state.size(); ++index) {
      const Bucket& bucket = bucketing.state[index];
      if (bucket.missing == static_cast<int>(bucket.arrivals.size())) continue;
      if (bucket.first_arrival > since) continue;
      Waiting one{bucket.iteration, {}, {}};
      for (std::size_t position = 0; position < bucket.filled.size(); ++position) {
        auto& list = bucket.filled[position] ? one.here : one.missing;
        list.push_back(bucketing.buckets[index][position]);
      }
      waiting.push_back(std::move(one));
    }
  }
  return waiting;
}

}  // namespace horovod_opt
