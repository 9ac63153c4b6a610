// State machine of one plan on one rank: which iteration an arriving tensor belongs to, and which
// path it takes.
//
// Invariants (each with a test that fails without it):
// 1. The n-th arrival of a slot belongs to iteration n, in whichever path. Planned arrivals of the
//    same slot never overlap, as upstream demands of equal names.
// 2. An arrival takes the planned path exactly if planned_from <= iteration < planned_until; both
//    are the same on every rank before a tensor of such an iteration is let through anywhere
//    (consensus.h).
// 3. While deferred, nothing is let through and no iteration begins.
// 4. A bucket is announced once an iteration, by the arrival that completes it, and its arrivals
//    are taken before its first slot can arrive again. So one place a slot is enough.
// 5. New buckets apply from an iteration that no rank has begun; the old ones still complete.
// 6. A plan that ends takes back the arrivals of every bucket that is not complete everywhere. A
//    rank that had announced such a bucket cannot take that back, so the others announce it too,
//    without arrivals, but only in the vote after: then every rank of the group knows that there is
//    nothing to reduce. Where all ranks of a group have announced it, it may be on its way to the
//    other groups: it stays until they answer that they have taken it back, and is given back then.
//    What a script that has left its step sends of the same slots waits until that is done.
// 7. A slot that any rank leaves out is in no bucket, on any rank, and always negotiated: decided
//    with the commit that makes the buckets. A rank that leaves one out later ends the plan.
// 8. A step that can never be complete, because a rank has left it (by an exception, say), is
//    abandoned by all ranks together: none waits for it, or goes on alone. Where steps come in turn,
//    an iteration is one step on each rank: what arrives of the next is held while the one before is
//    under way, so that no bucket ever holds tensors of two steps.
// 9. Iterations count what was sent: an arrival that the negotiated path has refused, as the last one
//    of its name is still under way, and the one with which the caller tries again are one. How
//    often he has to try differs from rank to rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/plan/arrival.h"
#include "horovod_opt/csrc/core/plan/bucket_filling.h"
#include "horovod_opt/csrc/core/plan/consensus.h"
#include "horovod_opt/csrc/core/plan/plan.h"
#include "horovod_opt/csrc/core/plan/rebuild_buckets.h"
#include "horovod_opt/csrc/core/report/state_page.h"

namespace horovod_opt {

enum class Route {
  kNegotiated,
  kPlanned,
  kDeferred,   // until the ranks have voted
  kOverlaps,   // refused: the slot's previous arrival is not reduced yet
  kAbandoned,  // refused: the ranks have abandoned the step that sends it
};

// The first iterations are negotiated: one shows the tensors, the other that each comes again.
constexpr int kWarmUpIterations = 2;
// After so many planned iterations it is known when tensors arrive, and the buckets are rebuilt.
constexpr int kTimedIterations = 5;
// After so many iterations, users are told that a plan still waits for other ranks, or for room.
constexpr int kPatientIterations = 100;

// Not thread-safe: PlanTable locks.
class PlanRun {
 public:
  using Clock = std::chrono::steady_clock;

  // `ranks`: that reduce its tensors.
  explicit PlanRun(Plan plan, int ranks = 1);

  struct ArrivalResult {
    Route route = Route::kNegotiated;
    int bucket_id = kNoBucket;  // of the bucket that is complete now
    bool news = false;          // there is something to vote on
  };
  // Before Arrive(): where the arriving tensor of `slot` is, and its shape. The plan learns them in
  // the first iteration. Returns in what the shape differs from that; empty: in nothing.
  std::string See(int slot, int device, const std::vector<std::int64_t>& shape);
  // The tensor of `slot` does not come: other calls come in its place. `reason`: for users. May be
  // said in every iteration. Returns whether there is something to vote on.
  bool LeaveOut(int slot, const std::string& reason);
  // Nothing more comes of this step, or hardly anything. Returns whether there is something to vote
  // on.
  bool StepOver(std::int64_t step);
  // Takes `arrival` if the route is kPlanned or kDeferred. `difference`: see plan.h. A tensor that
  // is not the planned one ends a plan that is active.
  ArrivalResult Arrive(int slot, const std::string& difference, ArrivalPtr& arrival,
                       Clock::time_point now);
  // After Route::kNegotiated, where the tensor was not taken: its next arrival is the same once more.
  void Refuse(int slot);

  // A complete bucket that is announced next, or was; without the place of its turn.
  Work& CompleteBucket(int bucket_id) { return filling_.CompleteBucket(bucket_id); }
  // The same, to be reduced now. `bucket_ids`: of buckets that zeros have completed since.
  Work Take(int bucket_id, std::vector<int>& bucket_ids);
  struct Progress {
    bool iteration_over = false;
    bool news = false;  // there is something to vote on: arrival times are known now
  };
  // The bucket is reduced.
  Progress MarkReduced(const Work& work);
  // It is not: see BucketFilling.
  std::vector<ArrivalPtr> GiveBack(int bucket_id);
  void HandedBack(int bucket_id) { filling_.HandedBack(bucket_id); }
  bool Owe(int bucket_id) { return filling_.Owe(bucket_id); }
  // A call that recurs (recurring_calls.h): it needs no warm-up.
  void SkipWarmUp();

  // --- votes ---
  // `patience`: a step of which nothing has come for so long counts as left, where steps come in
  // turn; zero: none does.
  Vote CastVote(bool joined, bool times, Clock::time_point now,
                Clock::duration patience = Clock::duration::zero());
  struct Effects {
    std::vector<ArrivalPtr> to_negotiate;  // or to fail, as they say themselves
    std::vector<ArrivalPtr> to_refuse;     // refused, see Route::kOverlaps
    std::vector<int> bucket_ids;
    std::vector<int> debts;     // to be announced in the next vote, invariant 6
    std::vector<int> free_ids;  // not used by this plan any more
    bool news = false;          // the ranks have to vote again
  };
  // Applies the decision and lets the deferred arrivals go. If the plan has had to end since
  // CastVote(), they stay deferred until the next vote. `buckets`, with their IDs: for kRebuild,
  // and for kCommit of a plan that has none.
  Effects Apply(const Decision& decision, const std::vector<int>& bucket_ids, Buckets buckets);
  // After Apply(): arrivals stay deferred until GoOn(), which lets them go.
  void DeferStill() { deferring_ = true; }
  Effects GoOn();
  // Tensors of a later step are held, and the one before is over.
  bool HeldStepMayBegin() const { return !held_.empty() && !deferring_ && StepIsOver(); }
  // This rank has joined: puts zeros into the planned iterations that others have begun, once it is
  // decided which iteration is the last. Returns the IDs of the buckets that they complete.
  std::vector<int> SupplyZeros();
  // All ranks have joined: they count anew, beginning with warm-up iterations.
  void Restart();

  void Fail(const std::string& reason);  // before it is committed
  void End(const std::string& reason);   // wants to end; if active, defers arrivals until the vote

  // Everything that has arrived and is not reduced, for shutdown.
  std::vector<ArrivalPtr> Close();

  const Plan& plan() const { return plan_; }
  Buckets buckets() const {
    if (!filling_.empty()) return filling_.buckets();
    return rested_.empty() ? plan_.buckets : rested_;
  }
  PlanState state() const { return state_; }
  // Slots that are in no bucket, on any rank.
  const std::set<int>& left_out() const { return left_out_; }
  // It has bucket IDs: it was decided on every rank that the plan becomes active.
  bool IsCommitted() const { return !filling_.empty(); }

  // For reports.
  const BucketFilling& filling() const { return filling_; }
  // Why it is not active, or not as a whole.
  std::string reason() const;
  // Why the ranks have last abandoned a step; empty: none.
  const std::string& abandoned() const { return abandoned_; }
  // After a step that was abandoned, until nothing of it is under way.
  bool starts_anew() const { return starts_anew_; }
  // It was decided that it is active, but this rank has an iteration before that to go.
  bool begins_later() const {
    return state_ == PlanState::kActive && planned_from_ > last_iteration_ + 1;
  }
  std::uint64_t last_iteration() const { return last_iteration_; }
  std::uint64_t iterations_done() const { return iterations_done_; }
  // False: it says nothing, as nothing of the plan is under way. `set`: the number of its process
  // set. `more`: what else is known of a bucket that is complete.
  bool DumpState(StatePage& page, const std::string& set,
                 const std::function<std::string(int bucket_id)>& more) const;

 private:
  // All slots have arrived equally often.
  bool IsWhole() const;
  bool IsLeftOut(int slot) const { return left_out_.count(slot) + leaves_out_.count(slot) > 0; }
  // The step that has begun takes the planned path.
  bool StepIsPlanned() const;
  // A tensor of the next step may be let through.
  bool StepIsOver() const;
  void WarmUpAgain();  // from the next iteration on
  void CatchUp();      // what has not arrived in this iteration counts as if it had
  bool StepIsLeft() const;
  bool HasNews() const;  // since CastVote()
  ArrivalResult Hold(int slot, const std::string& difference, ArrivalPtr& arrival);
  void Abandon(const Decision& decision, Effects& effects);
  std::string DescribeAbandoned(const Decision& decision) const;
  void ReleaseHeld(Effects& effects);

  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  struct DeferredArrival {
    int slot;
    std::uint64_t iteration;
    std::string difference;
    ArrivalPtr arrival;
  };

  bool IsPlanned(int slot, std::uint64_t iteration) const {
    return planned_from_ <= iteration && iteration < planned_until_ && left_out_.count(slot) == 0;
  }
  void DumpBuckets(StatePage& page, const std::string& set,
                   const std::function<std::string(int bucket_id)>& more) const;
  void DumpWaiting(StatePage& page, const std::string& set, const std::string& kind,
                   const std::vector<DeferredArrival>& arrivals) const;
  void Begin(int slot, std::uint64_t iteration);
  void BeginStep(std::int64_t step);
  void AddBuckets(std::uint64_t from_iteration, const std::vector<int>& bucket_ids,
                  Buckets buckets);
  // All that it waits for has arrived in the warm-up iterations.
  void BecomeReady();
  void Commit(const Decision& decision, const std::vector<int>& bucket_ids, Buckets buckets);
  // True if there is something to vote on.
  bool WarmUp(int slot, std::uint64_t iteration, const std::string& difference);
  void Differs(int slot, const std::string& difference);
  // Returns the ID of the bucket that is complete now, or kNoBucket.
  int Put(int slot, std::uint64_t iteration, ArrivalPtr arrival, Clock::time_point now);
  void TakeBack(const Decision& decision, Effects& effects);
  void Forget(Effects& effects);
  void LetGo(Effects& effects);  // deferred and held arrivals, as far as may be
  void Release(Effects& effects);

  Plan plan_;
  int ranks_;
  PlanState state_ = PlanState::kCaptured;
  std::string reason_;
  std::vector<std::uint64_t> arrivals_;  // by slot
  int unseen_;  // slots that have not arrived in all warm-up iterations, and are not left out
  std::map<int, std::string> leaves_out_;  // slots that this rank leaves out, and why
  std::set<int> left_out_;                 // that any rank does, as all have decided
  std::uint64_t last_iteration_ = 0;
  std::uint64_t planned_from_ = kNever, planned_until_ = kNever;
  bool deferring_ = false, zeros_ = false;
  std::vector<DeferredArrival> deferrals_;
  std::vector<DeferredArrival> held_;  // of later steps, invariant 8
  std::set<int> refused_;              // slots whose last arrival is counted and was not sent
  std::int64_t step_ = 0;              // the last that has begun
  bool in_turn_ = false;
  std::int64_t step_over_ = 0;       // the last of which StepOver() was told
  std::int64_t abandoned_step_ = 0;  // what still comes of it is refused
  std::string abandoned_;
  std::uint64_t warm_up_from_ = 0;  // the iteration before the first of the warm-up
  bool starts_anew_ = false;        // it has ended, and warms up again once nothing is under way
  bool any_has_left_ = false;       // a rank has left its step, and it is open what others do
  // What CastVote() has said last.
  std::uint64_t voted_iteration_ = 0;
  bool voted_whole_ = true, voted_goes_on_ = false;
  Clock::time_point last_arrival_;

  FirstShapes shapes_;
  BucketFilling filling_;
  Buckets rested_;  // before the plan gave its bucket IDs back
  std::uint64_t iterations_done_ = 0;
  ArrivalTimes times_;
  bool rebuild_asked_ = false, rebuilt_ = false;
};

}  // namespace horovod_opt
