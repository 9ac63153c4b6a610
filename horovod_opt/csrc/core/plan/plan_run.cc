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
      arrival->failure = abandoned_;
      result.route = Route::kAbandoned;
      return result;
    }
    last_arrival_ = now;
    const bool must_wait = arrival->in_turn ? deferring_ || !StepIsOver() : StepIsLeft();
    if (must_wait || !held_.empty()) return Hold(slot, difference, arrival);
    if (arrival->in_turn && !IsWhole()) CatchUp();
    in_turn_ = arrival->in_turn;
    BeginStep(step);
    result.news = starts_anew_ || step == step_over_;
  }
  const bool counted = refused_.count(slot) > 0;
  const std::uint64_t iteration = arrivals_[slot] + (counted ? 0 : 1);
  if (filling_.IsBusy(slot) && !deferring_ && IsPlanned(slot, iteration)) {
    result.route = Route::kOverlaps;
    return result;
  }
  refused_.erase(slot);
  arrivals_[slot] = iteration;
  last_arrival_ = now;
  if (!difference.empty() && !deferring_ && IsPlanned(slot, iteration)) {
    Differs(slot, difference);
    result.news = true;
  }
  if (state_ == PlanState::kCaptured && !counted && WarmUp(slot, iteration, difference))
    result.news = true;
  // What it waits for may have changed: the ranks look again, less and less often.
  if (state_ == PlanState::kReady && iteration > last_iteration_ && iteration >= kFirstLook &&
      IsPowerOfTwo(iteration))
    result.news = true;
  if (state_ == PlanState::kResting) {
    state_ = PlanState::kReady;
    result.news = true;
  }
  if (filling_.MayComeBack(slot) && !deferring_) deferring_ = result.news = true;
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

void PlanRun::Refuse(int slot) {
  if (arrivals_[slot] > 0) refused_.insert(slot);  // otherwise forgotten meanwhile
}

void PlanRun::BeginStep(std::int64_t step) {
  step_ = step;
  refused_.clear();
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

void PlanRun::BecomeReady() { state_ = PlanState::kReady; }

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

bool PlanRun::StepIsPlanned() const {
  return planned_from_ <= last_iteration_ && last_iteration_ < planned_until_;
}

bool PlanRun::StepIsOver() const {
  if (planned_from_ == kNever) return true;
  return !filling_.AnyBusy() && (!StepIsPlanned() || IsWhole());
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
  if (StepIsPlanned()) return true;
  if (state_ == PlanState::kReady || planned_from_ != kNever) CatchUp();
  return false;
}

bool PlanRun::StepIsLeft() const {
  return step_ != 0 && step_ == step_over_ && StepIsPlanned() && !IsWhole();
}

PlanRun::ArrivalResult PlanRun::Hold(int slot, const std::string& difference, ArrivalPtr& arrival) {
  ArrivalResult result;
  result.route = Route::kDeferred;
  result.news = held_.empty() && !deferring_ && (any_has_left_ || !IsWhole());
  held_.push_back({slot, 0, difference, std::move(arrival)});
  return result;
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
