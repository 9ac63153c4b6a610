#include "horovod_opt/csrc/core/plan/plan_run.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace horovod_opt {
namespace {

constexpr std::uint64_t kFirstLook = 64;

bool IsPowerOfTwo(std::uint64_t number) { return (number & (number - 1)) == 0; }

}  // namespace

PlanRun::PlanRun(Plan plan, int ranks)
    : plan_(std::move(plan)),
      ranks_(ranks),
      arrivals_(plan_.slots.size(), 0),
      unseen_(static_cast<int>(plan_.slots.size())),
      shapes_(plan_.slots.size()),
      filling_(plan_.slots.size()),
      times_(plan_.slots.size()) {}

std::string PlanRun::See(int slot, int device, const std::vector<std::int64_t>& shape) {
  if (arrivals_[slot] == 0) plan_.slots[slot].reduction.device = device;
  return shapes_.Compare(slot, shape);
}

PlanRun::ArrivalResult PlanRun::Arrive(int slot, const std::string& difference, ArrivalPtr& arrival,
                                       Clock::time_point now) {
  ArrivalResult result;
  arrival->may_be_call = abandoned_.empty();
  if (const std::int64_t step = arrival->step; step != 0 && step != step_) {
    if (step == abandoned_step_) {
      result.route = Route::kAbandoned;
      return result;
    }
    last_arrival_ = now;
    const bool must_wait = arrival->in_turn ? deferring_ || !StepIsOver() : StepIsLeft();
    if (must_wait || !held_.empty()) return Hold(slot, difference, arrival);
    if (arrival->in_turn && !IsWhole()) CatchUp();
    in_turn_ = arrival->in_turn;
    step_ = step;
    result.news = starts_anew_ || step == step_over_;
  }
  const std::uint64_t iteration = arrivals_[slot] + 1;
  if (filling_.IsBusy(slot) && !deferring_ && IsPlanned(slot, iteration)) {
    result.route = Route::kOverlaps;
    return result;
  }
  arrivals_[slot] = iteration;
  last_arrival_ = now;
  if (!difference.empty() && !deferring_ && IsPlanned(slot, iteration)) {
    Differs(slot, difference);
    result.news = true;
  }
  if (state_ == PlanState::kCaptured && WarmUp(slot, iteration, difference)) result.news = true;
  // What it waits for may have changed: the ranks look again, less and less often.
  if (state_ == PlanState::kReady && iteration > last_iteration_ && iteration >= kFirstLook &&
      IsPowerOfTwo(iteration))
    result.news = true;
  if (state_ == PlanState::kResting) {
    state_ = PlanState::kReady;
    result.news = true;
  }
  if (deferring_) {
    deferrals_.push_back({slot, iteration, difference, std::move(arrival)});
    result.route = Route::kDeferred;
    return result;
  }
  const bool begins = iteration > last_iteration_;
  Begin(slot, iteration);
  if (any_has_left_ && (begins || IsWhole())) result.news = true;
  if (!IsPlanned(slot, iteration)) return result;
  result.route = Route::kPlanned;
  result.bucket_id = Put(slot, iteration, std::move(arrival), now);
  return result;
}

bool PlanRun::LeaveOut(int slot, const std::string& reason) {
  if (state_ >= PlanState::kEnding) return false;
  if (!leaves_out_.emplace(slot, reason).second || left_out_.count(slot) > 0) return false;
  if (!filling_.empty() || !rested_.empty()) {
    End("'" + plan_.slots[slot].name + "': " + reason);
    return true;
  }
  if (state_ != PlanState::kCaptured || arrivals_[slot] >= warm_up_from_ + kWarmUpIterations)
    return false;
  if (--unseen_ > 0) return false;
  BecomeReady();
  return true;
}

void PlanRun::Differs(int slot, const std::string& difference) {
  state_ = PlanState::kEnding;
  reason_ = "'" + plan_.slots[slot].name + "': " + difference;
  deferring_ = true;
}

bool PlanRun::WarmUp(int slot, std::uint64_t iteration, const std::string& difference) {
  if (leaves_out_.count(slot) > 0) return false;
  const std::uint64_t last = warm_up_from_ + kWarmUpIterations;
  if (!difference.empty()) {
    Fail("'" + plan_.slots[slot].name + "': " + difference);
  } else if (iteration == last) {
    if (--unseen_ > 0) return false;
    BecomeReady();
  } else if (iteration > last && unseen_ > 0) {
    int absent = 0;
    while (arrivals_[absent] >= last || leaves_out_.count(absent) > 0) ++absent;
    Fail("'" + plan_.slots[absent].name + "' is not executed in every iteration");
  } else {
    return false;
  }
  return true;
}

void PlanRun::Begin(int slot, std::uint64_t iteration) {
  if (left_out_.count(slot) == 0) last_iteration_ = std::max(last_iteration_, iteration);
}

void PlanRun::BecomeReady() {
  state_ = PlanState::kReady;
  std::set<int> absent;
  for (const auto& [slot, reason] : leaves_out_) absent.insert(slot);
  const std::string mixed = MixedDevices(plan_, Without(buckets(), absent));
  if (!mixed.empty()) Fail(mixed);
}

int PlanRun::Put(int slot, std::uint64_t iteration, ArrivalPtr arrival, Clock::time_point now) {
  if (!rebuild_asked_) times_.Add(slot, iteration, now);
  return filling_.Put(slot, iteration, std::move(arrival), now);
}

Work PlanRun::Take(int bucket_id, std::vector<int>& bucket_ids) {
  Work work = filling_.Take(bucket_id);
  if (!work.IsEmpty() && zeros_ && !deferring_) bucket_ids = SupplyZeros();
  return work;
}

void PlanRun::AddBuckets(std::uint64_t from_iteration, const std::vector<int>& bucket_ids,
                         Buckets buckets) {
  std::vector<std::shared_ptr<const PlannedBucket>> planned;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    planned.push_back(std::make_shared<const PlannedBucket>(plan_, bucket_ids.at(i),
                                                            std::move(buckets[i]), ranks_));
  }
  filling_.Add(from_iteration, std::move(planned));
}

PlanRun::Progress PlanRun::MarkReduced(const Work& work) {
  Progress progress;
  progress.iteration_over = filling_.MarkReduced(work.bucket->id);
  iterations_done_ += progress.iteration_over;
  if (!rebuild_asked_ && iterations_done_ >= kTimedIterations) {
    rebuild_asked_ = true;
    progress.news = state_ == PlanState::kActive && plan_.slots.size() > 1;
  }
  return progress;
}

void PlanRun::SkipWarmUp() {
  state_ = PlanState::kReady;
  unseen_ = 0;
  last_arrival_ = Clock::now();
  rebuild_asked_ = rebuilt_ = true;  // its buckets are what they have to be
}

std::vector<ArrivalPtr> PlanRun::GiveBack(int bucket_id) {
  std::vector<ArrivalPtr> arrivals = filling_.GiveBack(bucket_id);
  for (ArrivalPtr& arrival : arrivals) {
    if (starts_anew_) arrival->failure = abandoned_;
  }
  return arrivals;
}

std::vector<int> PlanRun::SupplyZeros() {
  zeros_ = planned_until_ != kNever;
  std::vector<int> bucket_ids;
  const int slots = static_cast<int>(arrivals_.size());
  for (int slot = 0; zeros_ && slot < slots; ++slot) {
    const std::uint64_t iteration = std::max(arrivals_[slot] + 1, planned_from_);
    if (filling_.IsBusy(slot) || !IsPlanned(slot, iteration)) continue;
    arrivals_[slot] = iteration;
    const int bucket_id = Put(slot, iteration, nullptr, Clock::now());
    if (bucket_id != kNoBucket) bucket_ids.push_back(bucket_id);
  }
  return bucket_ids;
}

bool PlanRun::IsWhole() const {
  const std::uint64_t* first = nullptr;
  for (std::size_t slot = 0; slot < arrivals_.size(); ++slot) {
    if (IsLeftOut(static_cast<int>(slot))) continue;
    if (first == nullptr) first = &arrivals_[slot];
    if (arrivals_[slot] != *first) return false;
  }
  return true;
}

bool PlanRun::StepIsOver() const {
  if (planned_from_ == kNever) return true;
  if (filling_.AnyBusy()) return false;
  return last_iteration_ >= planned_until_ || IsWhole();
}

// After a step that was left in the negotiated path. What it has shown of the plan does not count.
void PlanRun::CatchUp() {
  for (std::size_t slot = 0; slot < arrivals_.size(); ++slot) {
    if (!IsLeftOut(static_cast<int>(slot))) arrivals_[slot] = last_iteration_;
  }
  if (state_ == PlanState::kCaptured) WarmUpAgain();
}

void PlanRun::WarmUpAgain() {
  warm_up_from_ = last_iteration_;
  unseen_ = static_cast<int>(arrivals_.size() - leaves_out_.size());
}

bool PlanRun::StepOver(std::int64_t step) {
  step_over_ = step;
  if (step != step_ || IsWhole()) return false;
  if (planned_from_ != kNever) return true;
  if (state_ == PlanState::kReady) CatchUp();
  return false;
}

bool PlanRun::StepIsLeft() const {
  return step_ != 0 && step_ == step_over_ && planned_from_ != kNever && !IsWhole();
}

bool PlanRun::HasNews() const {
  if (deferring_) return false;
  if (!held_.empty() && !voted_goes_on_ && (any_has_left_ || !IsWhole())) return true;
  return any_has_left_ && (last_iteration_ != voted_iteration_ || (IsWhole() && !voted_whole_));
}

PlanRun::ArrivalResult PlanRun::Hold(int slot, const std::string& difference, ArrivalPtr& arrival) {
  ArrivalResult result;
  result.route = Route::kDeferred;
  result.news = held_.empty() && !deferring_ && (any_has_left_ || !IsWhole());
  held_.push_back({slot, 0, difference, std::move(arrival)});
  return result;
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
  const bool is_late = patience > patience.zero() && in_turn_ && planned_from_ != kNever &&
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
    vote.threshold = plan_.threshold;
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
  Release(effects);
  ReleaseHeld(effects);
  if (HasNews()) effects.news = true;
  return effects;
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
  step_ = 0;
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
  deferring_ = state_ == PlanState::kEnding;
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
    step_ = held_.front().arrival->step;
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

std::string PlanRun::reason() const {
  if (!reason_.empty() || left_out_.empty()) return reason_;
  std::string names;
  for (int slot : left_out_) {
    const auto own = leaves_out_.find(slot);
    names += (names.empty() ? "'" : ", '") + plan_.slots[slot].name + "'" +
             (own == leaves_out_.end() ? "" : " (" + own->second + ")");
  }
  return "without " + names;
}

std::vector<ArrivalPtr> PlanRun::Close() {
  std::vector<ArrivalPtr> arrivals = filling_.Close();
  for (auto* waiting : {&deferrals_, &held_}) {
    for (DeferredArrival& deferral : *waiting) arrivals.push_back(std::move(deferral.arrival));
    waiting->clear();
  }
  return arrivals;
}

}  // namespace horovod_opt
