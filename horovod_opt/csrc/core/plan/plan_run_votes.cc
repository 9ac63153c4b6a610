// Votes of PlanRun: what this rank says of a plan, and what it does as all have decided.
#include <algorithm>
#include <iterator>
#include <utility>

#include "horovod_opt/csrc/core/plan/plan_run.h"

namespace horovod_opt {

bool PlanRun::HasNews() const {
  if (deferring_) return false;
  if (!held_.empty() && !voted_goes_on_ && (any_has_left_ || !IsWhole())) return true;
  return any_has_left_ && (last_iteration_ != voted_iteration_ || (IsWhole() && !voted_whole_));
}

Vote PlanRun::CastVote(bool joined, bool times, Clock::time_point now, Clock::duration patience) {
  deferring_ = true;
  Vote vote;
  vote.hash = plan_.hash;
  vote.state = state_;
  vote.last_iteration = last_iteration_;
  vote.reason = reason_;
  vote.devices = DevicesOf(plan_);
  vote.completions = filling_.Completions();
  vote.under_way = filling_.IsUnderWay() || !deferrals_.empty() || !held_.empty();
  vote.whole = IsWhole();
  vote.goes_on = !held_.empty();
  vote.step_over = StepIsLeft();
  const bool is_late = patience > patience.zero() && in_turn_ && StepIsPlanned() &&
                       now - last_arrival_ >= patience;
  vote.left = !vote.whole && (vote.goes_on || vote.step_over || is_late);
  for (std::size_t slot = 0; vote.left && slot < arrivals_.size(); ++slot) {
    if (arrivals_[slot] < last_iteration_ && !IsLeftOut(static_cast<int>(slot)))
      vote.missing.push_back(static_cast<int>(slot));
  }
  voted_iteration_ = last_iteration_;
  voted_whole_ = vote.whole;
  voted_goes_on_ = vote.goes_on;
  for (const auto& [slot, reason] : leaves_out_) vote.left_out.push_back(slot);
  vote.idle_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_arrival_).count();
  if (joined && state_ == PlanState::kActive) {
    vote.state = PlanState::kPausing;
    vote.reason = "has joined";
  } else if (joined && state_ == PlanState::kReady) {
    vote.state = PlanState::kCaptured;
  }
  if (times && rebuild_asked_ && !rebuilt_) {
    vote.times = times_.Means();
    vote.limits = plan_.limits;
  }
  return vote;
}

PlanRun::Effects PlanRun::Apply(const Decision& decision, const std::vector<int>& bucket_ids,
                                Buckets buckets) {
  Effects effects;
  any_has_left_ = decision.any_has_left;
  switch (decision.kind) {
    case Decision::kWait:
      if (state_ < PlanState::kActive && state_ != PlanState::kResting) reason_ = decision.reason;
      break;
    case Decision::kCommit:
      Commit(decision, bucket_ids, std::move(buckets));
      effects.news = state_ == PlanState::kEnding;  // nobody else asks for the vote that ends it
      break;
    case Decision::kRebuild:
      rebuilt_ = true;
      AddBuckets(decision.from_iteration, bucket_ids, std::move(buckets));
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
      rested_ = this->buckets();
      effects.free_ids = filling_.Free();
      break;
    case Decision::kEnd:
      if (state_ != PlanState::kEnded) reason_ = decision.reason;
      state_ = PlanState::kEnded;
      planned_from_ = planned_until_ = kNever;
      zeros_ = false;
      TakeBack(decision, effects);
      break;
    case Decision::kAbandon:
      Abandon(decision, effects);
      break;
    case Decision::kFree:
      if (starts_anew_) rested_ = this->buckets();
      effects.free_ids = filling_.Free();
      if (std::exchange(starts_anew_, false)) {
        state_ = PlanState::kCaptured;
        WarmUpAgain();
      }
      break;
    case Decision::kForget:
      Forget(effects);
      break;
  }
  LetGo(effects);
  return effects;
}

PlanRun::Effects PlanRun::GoOn() {
  Effects effects;
  LetGo(effects);
  return effects;
}

void PlanRun::LetGo(Effects& effects) {
  Release(effects);
  ReleaseHeld(effects);
  if (HasNews()) effects.news = true;
}

void PlanRun::Commit(const Decision& decision, const std::vector<int>& bucket_ids,
                     Buckets buckets) {
  left_out_ = decision.left_out;
  if (state_ == PlanState::kReady) reason_.clear();
  state_ = state_ == PlanState::kReady ? PlanState::kActive : PlanState::kEnding;
  for (const auto& [slot, reason] : leaves_out_) {
    const bool is_known = left_out_.count(slot) > 0;  // otherwise it was left out since CastVote()
    if (state_ == PlanState::kActive && !is_known) Differs(slot, reason);
  }
  planned_from_ = decision.from_iteration;
  planned_until_ = kNever;
  for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
    plan_.slots[slot].devices = decision.devices.empty() ? nullptr : decision.devices[slot];
  }
  if (filling_.empty()) AddBuckets(0, bucket_ids, std::move(buckets));
}

void PlanRun::TakeBack(const Decision& decision, Effects& effects) {
  auto withdrawal = filling_.TakeBack(decision.everywhere, decision.anywhere, decision.in_group);
  effects.to_negotiate = std::move(withdrawal.arrivals);
  effects.debts = std::move(withdrawal.debts);
  effects.news = !effects.debts.empty();
}

// As an end, but what was taken back fails, and the plan starts anew. All ranks count again from
// here: their next step is the first.
void PlanRun::Abandon(const Decision& decision, Effects& effects) {
  abandoned_ = DescribeAbandoned(decision);
  reason_ = "a step was abandoned; planned again after a warm-up";
  state_ = PlanState::kEnded;
  starts_anew_ = true;
  planned_from_ = planned_until_ = kNever;
  zeros_ = false;
  TakeBack(decision, effects);
  effects.news = true;
  for (DeferredArrival& deferral : deferrals_)
    effects.to_negotiate.push_back(std::move(deferral.arrival));
  deferrals_.clear();
  abandoned_step_ = step_;
  for (ArrivalPtr& arrival : effects.to_negotiate) arrival->failure = abandoned_;
  BeginStep(0);
  last_iteration_ = 0;
  std::fill(arrivals_.begin(), arrivals_.end(), 0);
  times_.Restart();
}

std::string PlanRun::DescribeAbandoned(const Decision& decision) const {
  constexpr std::size_t kNames = 3;
  std::string text = "Horovod: a step of " + plan_.name;
  if (plan_.process_set != 0) text += " in process set " + std::to_string(plan_.process_set);
  text += " was abandoned:";
  for (const auto& [rank, missing] : decision.missing) {
    text += (rank == decision.missing.begin()->first ? " rank " : "; rank ") +
            std::to_string(rank) + " has left it without ";
    for (std::size_t i = 0; i < std::min(missing.size(), kNames); ++i) {
      text += (i == 0 ? "'" : ", '") + plan_.slots[missing[i]].name + "'";
    }
    if (missing.size() > kNames)
      text += " and " + std::to_string(missing.size() - kNames) + " more tensors";
  }
  return text +
         ". It may have caught an exception, or left out a batch. Ranks that have not left the " +
         "step get this error; a script that catches it can go on with the next step, as on the "
         "others";
}

// Starts anew, as a rank does that hears of the plan only now. What has arrived since CastVote() is
// the first that counts.
void PlanRun::Forget(Effects& effects) {
  effects.free_ids = filling_.Free();
  std::vector<DeferredArrival> deferrals = std::move(deferrals_);
  std::move(held_.begin(), held_.end(), std::back_inserter(deferrals));
  *this = PlanRun(std::move(plan_), ranks_);
  for (DeferredArrival& deferral : deferrals) {
    See(deferral.slot, plan_.slots[deferral.slot].reduction.device, deferral.arrival->shape);
    Arrive(deferral.slot, deferral.difference, deferral.arrival, Clock::now());
    effects.to_negotiate.push_back(std::move(deferral.arrival));
  }
}

// Lets the deferred arrivals go, unless the plan has to end first.
void PlanRun::Release(Effects& effects) {
  for (const DeferredArrival& deferral : deferrals_) {
    if (deferral.difference.empty() || !IsPlanned(deferral.slot, deferral.iteration)) continue;
    Differs(deferral.slot, deferral.difference);
    effects.news = true;
    break;
  }
  const bool must_wait = std::any_of(
      deferrals_.begin(), deferrals_.end(),
      [&](const DeferredArrival& deferral) { return filling_.MayComeBack(deferral.slot); });
  if (must_wait) effects.news = true;
  deferring_ = must_wait || state_ == PlanState::kEnding;
  if (deferring_) return;
  for (DeferredArrival& deferral : deferrals_) {
    Begin(deferral.slot, deferral.iteration);
    if (!IsPlanned(deferral.slot, deferral.iteration)) {
      effects.to_negotiate.push_back(std::move(deferral.arrival));
    } else if (filling_.IsBusy(deferral.slot)) {
      --arrivals_[deferral.slot];
      effects.to_refuse.push_back(std::move(deferral.arrival));
    } else {
      const int bucket_id =
          Put(deferral.slot, deferral.iteration, std::move(deferral.arrival), Clock::now());
      if (bucket_id != kNoBucket) effects.bucket_ids.push_back(bucket_id);
    }
  }
  deferrals_.clear();
}

// Of steps that were held: one may begin now.
void PlanRun::ReleaseHeld(Effects& effects) {
  while (HeldStepMayBegin()) {
    if (!IsWhole()) CatchUp();
    BeginStep(held_.front().arrival->step);
    const auto end = std::find_if(held_.begin(), held_.end(), [&](const DeferredArrival& deferral) {
      return deferral.arrival->step != step_;
    });
    std::vector<DeferredArrival> arrivals(std::make_move_iterator(held_.begin()),
                                          std::make_move_iterator(end));
    held_.erase(held_.begin(), end);
    for (DeferredArrival& deferral : arrivals) {
      const auto arrived =
          Arrive(deferral.slot, deferral.difference, deferral.arrival, Clock::now());
      if (arrived.news) effects.news = true;
      if (arrived.bucket_id != kNoBucket) effects.bucket_ids.push_back(arrived.bucket_id);
      if (arrived.route == Route::kNegotiated)
        effects.to_negotiate.push_back(std::move(deferral.arrival));
      if (arrived.route == Route::kOverlaps)
        effects.to_refuse.push_back(std::move(deferral.arrival));
    }
  }
}

void PlanRun::Restart() {
  // Buckets that are complete may still be on their way to other nodes.
  const bool under_way =
      filling_.AnyIncomplete() || (filling_.AnyBusy() && !IsWhole()) || !held_.empty();
  std::fill(arrivals_.begin(), arrivals_.end(), 0);
  refused_.clear();
  last_iteration_ = 0;
  times_.Restart();
  zeros_ = false;
  planned_from_ = planned_until_ = kNever;
  WarmUpAgain();
  if (under_way) {
    if (state_ != PlanState::kEnded) Fail("an iteration was under way when all ranks had joined");
    return;
  }
  filling_.Restart();
  // Active still: all have joined in the round in which they said so.
  if (state_ != PlanState::kEnding && state_ < PlanState::kFailed) state_ = PlanState::kCaptured;
}

}  // namespace horovod_opt
