// One plan on one rank: which pass an arriving tensor belongs to, which lane it takes, and when a
// bucket is complete.
//
// Invariants (each with a test that fails without it):
// 1. The n-th arrival of a slot belongs to pass n, in whichever lane. Planned arrivals of the same
//    slot never overlap, as upstream demands of equal names.
// 2. An arrival takes the planned lane exactly if planned_from <= pass < planned_until; both are the
//    same on every rank before a tensor of such a pass is let through anywhere (council.h).
// 3. While held, nothing is let through and no pass begins.
// 4. A bucket is announced once a pass, by the arrival that completes it, and its arrivals are taken
//    before its first slot can arrive again. So one place a slot is enough.
// 5. A new cut applies from a pass that no rank has begun; the buckets of the old one still complete.
// 6. A plan that ends takes back the arrivals of every bucket that is not complete everywhere. A rank
//    that had announced such a bucket cannot take that back, so the others announce it too, without
//    arrivals, but only in the council after: then every rank knows that there is nothing to reduce.
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
  kHeld,      // until the council has decided
  kOverlaps,  // refused: the slot's previous arrival is not reduced yet
};

constexpr int kNoTicket = -1;

// A complete bucket, to be reduced. No slots: its arrivals were taken back on every rank.
struct Work {
  const Plan* plan = nullptr;  // lives as long as the PlanRun
  int ticket = kNoTicket;
  std::uint64_t pass = 0;
  std::vector<int> slots;
  std::vector<ArrivalPtr> arrivals;  // by position in `slots`
  std::chrono::steady_clock::time_point last_arrival;
};

// For messages: which bucket of which pass it is, and its tensors.
std::string Describe(const Work& work);

// After so many passes, ranks are told that a plan still waits for others.
constexpr std::uint64_t kPatientPasses = 100;

// Not thread-safe: PlanLane locks.
class PlanRun {
 public:
  using Clock = std::chrono::steady_clock;

  explicit PlanRun(Plan plan);

  struct Arrived {
    Route route = Route::kNegotiated;
    int ticket = kNoTicket;  // of the bucket that is complete now
    bool news = false;       // the council should hear of it
  };
  // Where the arriving tensor of `slot` is, and its shape: in the first pass the plan learns them.
  // Before Arrive(). What the shape differs from; empty: it does not.
  std::string See(int slot, int device, const std::vector<std::int64_t>& shape);
  // Takes `arrival` if the route is kPlanned or kHeld. `difference`: see plan.h. A tensor that is not
  // the planned one ends a plan that is active.
  Arrived Arrive(int slot, const std::string& difference, ArrivalPtr& arrival, Clock::time_point now);

  // The arrivals of a complete bucket. `tickets`: of buckets that zeros have completed since.
  Work Take(int ticket, std::vector<int>& tickets);
  struct Progress {
    bool pass_over = false;
    bool news = false;  // the council should hear of it: arrival times are known now
  };
  // The bucket is reduced.
  Progress Finished(const Work& work);

  // --- with the council ---
  Statement Hold(bool joined, bool times, Clock::time_point now);
  struct Released {
    std::vector<ArrivalPtr> negotiated;
    std::vector<ArrivalPtr> overlapping;  // refused, see Route::kOverlaps
    std::vector<int> tickets;
    std::vector<int> owed;   // to be announced in the next council, invariant 6
    std::vector<int> freed;  // not used by this plan any more
    bool news = false;       // the council has to meet again
  };
  // Applies the decision and lets the held arrivals go. But what has been wanted since Hold() is
  // left to the next council: if the plan has to end, they stay held. `tickets`: of its buckets, for
  // kCommit and kRecut.
  Released Apply(const Decision& decision, std::vector<int> tickets, Buckets recut);
  // This rank has joined: zeros for the planned passes that others have begun, once it is decided
  // which is the last. Returns the tickets of the buckets that they complete.
  std::vector<int> SupplyZeros();
  // All ranks have joined: they start to count anew, and shadow the first passes again.
  void Restart();

  void Fail(const std::string& reason);  // before it is committed
  void End(const std::string& reason);   // wants to end; if active, holds arrivals until the council

  // Everything that has arrived and is not reduced, for shutdown.
  std::vector<ArrivalPtr> Drain();

  const Plan& plan() const { return plan_; }
  const Buckets& buckets() const {
    if (!cuts_.empty()) return cuts_.back().buckets;
    return rested_.empty() ? plan_.buckets : rested_;
  }
  Stand stand() const { return stand_; }
  // It has tickets: it was decided on every rank that the plan becomes active.
  bool Committed() const { return !cuts_.empty(); }

  // For reports.
  const std::string& reason() const { return reason_; }
  std::uint64_t begun() const { return begun_; }
  std::uint64_t passes_done() const { return passes_done_; }
  const std::vector<std::uint64_t>& times_last() const { return times_last_; }
  // Names of the slots that a begun planned pass waits for here, if one waits since before `since`.
  struct Waiting {
    std::uint64_t pass;
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
    int ticket = kNoTicket;
    std::vector<ArrivalPtr> arrivals;
    std::vector<bool> filled;
    int missing = 0;
    std::uint64_t pass = 0;
    Clock::time_point first_arrival, last_arrival;
    std::uint64_t completed = 0;  // times that it was announced or is to be
    bool taken_back = false;      // its arrivals, since it was announced or is to be
  };
  struct Cut {
    std::uint64_t from_pass = 0;
    Buckets buckets;
    std::vector<std::pair<int, int>> where;  // slot -> bucket, position
    std::vector<Bucket> state;
    std::uint64_t done = 0;  // buckets
  };
  struct HeldArrival {
    int slot;
    std::uint64_t pass;
    std::string difference;
    ArrivalPtr arrival;
  };

  // Why the buckets cannot be reduced as they are; empty: they can.
  std::string Mixture() const;
  // True if the council should hear of it.
  bool Shadow(int slot, std::uint64_t pass, const std::string& difference);
  bool IsPlanned(std::uint64_t pass) const { return planned_from_ <= pass && pass < planned_until_; }
  Cut& CutOf(std::uint64_t pass);
  // nullptr if the ticket is none of this plan's.
  Bucket* BucketOf(int ticket, Cut*& cut, std::size_t& index);
  template <class Do>
  void ForEachBucket(const Do& act);
  void Empty(Bucket& bucket, const std::vector<int>& slots);
  void TakeBack(const Decision& decision, Released& released);
  void Free(Released& released);
  void Release(Released& released);
  // Returns the ticket of the bucket that is complete now, or kNoTicket.
  int Put(int slot, std::uint64_t pass, ArrivalPtr arrival, Clock::time_point now);
  void Forget(Released& released);
  void Differs(int slot, const std::string& difference);
  void AddCut(std::uint64_t from_pass, const std::vector<int>& tickets, Buckets buckets);
  void Time(int slot, std::uint64_t pass, Clock::time_point now);

  Plan plan_;
  Stand stand_ = Stand::kCaptured;
  std::string reason_;
  std::vector<Place> places_;
  int unseen_;  // slots that have not arrived in all passes that are shadowed
  std::uint64_t begun_ = 0;
  std::uint64_t planned_from_ = kNever, planned_until_ = kNever;
  bool held_ = false, zeros_ = false;
  std::vector<HeldArrival> waiting_;
  std::vector<Cut> cuts_;  // the last one is the newest
  Buckets rested_;         // of the last cut before the plan gave its tickets back
  int outstanding_ = 0;    // buckets that are announced, or are to be, and not reduced
  Clock::time_point last_arrival_;

  std::uint64_t passes_done_ = 0;
  std::vector<std::uint64_t> times_last_;  // by slot: how often it completed its bucket
  std::uint64_t timed_pass_ = 0;
  Clock::time_point pass_start_;
  std::vector<std::int64_t> offset_sum_us_, offsets_;  // by slot
  bool recut_asked_ = false, recut_ = false;
};

}  // namespace horovod_opt
