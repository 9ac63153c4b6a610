// One plan on one rank: which iteration an arriving tensor belongs to, which path it takes, and
// when a bucket is complete.
//
// Invariants (each with a test that fails without it):
// 1. The n-th arrival of a slot belongs to iteration n, in whichever path. Planned arrivals of the
//    same slot never overlap, as upstream demands of equal names.
// 2. An arrival takes the planned path exactly if planned_from <= iteration < planned_until; both
//    are the same on every rank before a tensor of such an iteration is let through anywhere
//    (vote.h).
// 3. While deferred, nothing is let through and no iteration begins.
// 4. A bucket is announced once an iteration, by the arrival that completes it, and its arrivals
//    are taken before its first slot can arrive again. So one place a slot is enough.
// 5. New buckets applies from an iteration that no rank has begun; the buckets of the old ones
//    still complete.
// 6. A plan that ends takes back the arrivals of every bucket that is not complete everywhere. A
//    rank that had announced such a bucket cannot take that back, so the others announce it too,
//    without arrivals, but only in the vote after: then every rank knows that there is nothing to
//    reduce.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/plan/consensus.h"
#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {

// What a framework's thread hands over; the binding knows what is in it. nullptr: zeros.
struct Arrival {
  virtual ~Arrival() = default;
  virtual std::string Name() const { return ""; }
  std::vector<std::int64_t> shape;
  // Its data may be read; from then on always.
  virtual bool DataReady() { return true; }
};
using ArrivalPtr = std::unique_ptr<Arrival>;

enum class Route {
  kNegotiated,
  kPlanned,
  kDeferred,  // until the vote has decided
  kOverlaps,  // refused: the slot's previous arrival is not reduced yet
};

constexpr int kNoBucket = -1;

// A complete bucket, to be reduced. No slots: its arrivals were taken back on every rank.
struct Work {
  const Plan* plan = nullptr;  // lives as long as the PlanRun
  int bucket_id = kNoBucket;
  std::uint64_t iteration = 0;
  std::vector<int> slots;
  std::vector<ArrivalPtr> arrivals;  // by position in `slots`
  std::chrono::steady_clock::time_point last_arrival;
};

// For messages: which bucket of which pass it is, and its tensors.
std::string Describe(const Work& work);

// After so many iterations, ranks are told that a plan still waits for others.
constexpr std::uint64_t kPatientIterations = 100;

// Not thread-safe: PlanTable locks.
class PlanRun {
 public:
  using Clock = std::chrono::steady_clock;

  explicit PlanRun(Plan plan);

  struct Arrived {
    Route route = Route::kNegotiated;
    int bucket_id = kNoBucket;  // of the bucket that is complete now
    bool news = false;          // the vote should hear of it
  };
  // Where the arriving tensor of `slot` is, and its shape: in the first iteration the plan learns
  // them. Before Arrive(). What the shape differs from; empty: it does not.
  std::string See(int slot, int device, const std::vector<std::int64_t>& shape);
  // Takes `arrival` if the route is kPlanned or kDeferred. `difference`: see plan.h. A tensor that
  // is not the planned one ends a plan that is active.
  Arrived Arrive(int slot, const std::string& difference, ArrivalPtr& arrival,
                 Clock::time_point now);

  // The arrivals of a complete bucket. `bucket_ids`: of buckets that zeros have completed since.
  Work Take(int bucket_id, std::vector<int>& bucket_ids);
  struct Progress {
    bool iteration_over = false;
    bool news = false;  // the vote should hear of it: arrival times are known now
  };
  // The bucket is reduced.
  Progress Finished(const Work& work);

  // --- with the vote ---
  Vote CastVote(bool joined, bool times, Clock::time_point now);
  struct Released {
    std::vector<ArrivalPtr> negotiated;
    std::vector<ArrivalPtr> overlapping;  // refused, see Route::kOverlaps
    std::vector<int> bucket_ids;
    std::vector<int> owed;   // to be announced in the next vote, invariant 6
    std::vector<int> freed;  // not used by this plan any more
    bool news = false;       // the vote has to meet again
  };
  // Applies the decision and lets the deferred arrivals go. But what has been wanted since
  // CastVote() is left to the next vote: if the plan has to end, they stay deferred. `bucket_ids`:
  // of its buckets, for kCommit and kRebuild.
  Released Apply(const Decision& decision, std::vector<int> bucket_ids, Buckets rebuilt);
  // This rank has joined: zeros for the planned iterations that others have begun, once it is
  // decided which is the last. Returns the bucket IDs of the buckets that they complete.
  std::vector<int> SupplyZeros();
  // All ranks have joined: they start to count anew, and shadow the first iterations again.
  void Restart();

  void Fail(const std::string& reason);  // before it is committed
  void End(const std::string& reason);   // wants to end; if active, holds arrivals until the vote

  // Everything that has arrived and is not reduced, for shutdown.
  std::vector<ArrivalPtr> Drain();

  const Plan& plan() const { return plan_; }
  const Buckets& buckets() const {
    if (!bucketings_.empty()) return bucketings_.back().buckets;
    return rested_.empty() ? plan_.buckets : rested_;
  }
  PlanState state() const { return state_; }
  // It has bucket IDs: it was decided on every rank that the plan becomes active.
  bool Committed() const { return !bucketings_.empty(); }

  // For reports.
  const std::string& reason() const { return reason_; }
  std::uint64_t begun() const { return begun_; }
  std::uint64_t iterations_done() const { return iterations_done_; }
  const std::vector<std::uint64_t>& times_last() const { return times_last_; }
  // Names of the slots that a begun planned iteration waits for here, if one waits since before
  // `since`.
  struct Waiting {
    std::uint64_t iteration;
    std::vector<int> here, missing;
  };
  std::vector<Waiting> WaitingSince(Clock::time_point since) const;
  // The arrivals among them, by their own names.
  std::vector<std::string> NamesWaitingSince(Clock::time_point since) const;

 private:
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  struct Place {
    std::uint64_t arrivals = 0;
    bool busy = false;  // in a bucket
    bool seen = false;
    std::vector<std::int64_t> shape;  // of the first arrival
  };
  struct Bucket {
    int bucket_id = kNoBucket;
    std::vector<ArrivalPtr> arrivals;
    std::vector<bool> filled;
    int missing = 0;
    std::uint64_t iteration = 0;
    Clock::time_point first_arrival, last_arrival;
    std::uint64_t completed = 0;  // times that it was announced or is to be
    bool taken_back = false;      // its arrivals, since it was announced or is to be
  };
  struct Bucketing {
    std::uint64_t from_iteration = 0;
    Buckets buckets;
    std::vector<std::pair<int, int>> where;  // slot -> bucket, position
    std::vector<Bucket> state;
    std::uint64_t done = 0;  // buckets
  };
  struct DeferredArrival {
    int slot;
    std::uint64_t iteration;
    std::string difference;
    ArrivalPtr arrival;
  };

  // Why the buckets cannot be reduced as they are; empty: they can.
  std::string Mixture() const;
  // True if the vote should hear of it.
  bool WarmUp(int slot, std::uint64_t iteration, const std::string& difference);
  bool IsPlanned(std::uint64_t iteration) const {
    return planned_from_ <= iteration && iteration < planned_until_;
  }
  Bucketing& BucketingOf(std::uint64_t iteration);
  // nullptr if the bucket ID is none of this plan's.
  Bucket* BucketOf(int bucket_id, Bucketing*& bucketing, std::size_t& index);
  template <class Do>
  void ForEachBucket(const Do& act);
  void Empty(Bucket& bucket, const std::vector<int>& slots);
  void TakeBack(const Decision& decision, Released& released);
  void Free(Released& released);
  void Release(Released& released);
  // Returns the bucket ID of the bucket that is complete now, or kNoBucket.
  int Put(int slot, std::uint64_t iteration, ArrivalPtr arrival, Clock::time_point now);
  void Forget(Released& released);
  void Differs(int slot, const std::string& difference);
  void AddBucketing(std::uint64_t from_iteration, const std::vector<int>& bucket_ids,
                    Buckets buckets);
  void Time(int slot, std::uint64_t iteration, Clock::time_point now);

  Plan plan_;
  PlanState state_ = PlanState::kCaptured;
  std::string reason_;
  std::vector<Place> places_;
  int unseen_;  // slots that have not arrived in all iterations that are shadowed
  std::uint64_t begun_ = 0;
  std::uint64_t planned_from_ = kNever, planned_until_ = kNever;
  bool deferring_ = false, zeros_ = false;
  std::vector<DeferredArrival> waiting_;
  std::vector<Bucketing> bucketings_;  // the last one is the newest
  Buckets rested_;                     // of the last cut before the plan gave its bucket IDs back
  int outstanding_ = 0;                // buckets that are announced, or are to be, and not reduced
  Clock::time_point last_arrival_;

  std::uint64_t iterations_done_ = 0;
  std::vector<std::uint64_t> times_last_;  // by slot: how often it completed its bucket
  std::uint64_t timed_iteration_ = 0;
  Clock::time_point iteration_start_;
  std::vector<std::int64_t> offset_sum_us_, offsets_;  // by slot
  bool rebuild_asked_ = false, rebuilt_ = false;
};

}  // namespace horovod_opt
