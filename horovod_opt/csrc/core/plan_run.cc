#include "plan_run.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace horovod_opt {
namespace {

// One is not enough: TensorFlow executes an allreduce of a constant once, while it optimizes the
// graph, and never again.
constexpr std::uint64_t kShadowPasses = 2;
constexpr std::uint64_t kTimedPasses = 5;

}  // namespace

std::string Describe(const Work& work) {
  std::string text = "plan " + work.plan->hash + " (" + work.plan->name + "), pass " +
                     std::to_string(work.pass) + ", bucket " + std::to_string(work.ticket) + ": ";
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

void PlanRun::See(int slot, bool gpu) {
  if (places_[slot].arrivals == 0) plan_.slots[slot].reduction.gpu = gpu;
}

PlanRun::Arrived PlanRun::Arrive(int slot, const std::string& difference, ArrivalPtr& arrival,
                                 Clock::time_point now) {
  Arrived result;
  Place& place = places_[slot];
  const std::uint64_t pass = place.arrivals + 1;
  if (place.busy && !held_ && IsPlanned(pass)) {
    result.route = Route::kOverlaps;
    return result;
  }
  // While held, the council may be about to make this pass a planned one.
  const bool may_be_planned = held_ && stand_ == Stand::kReady && pass > begun_;
  if (!difference.empty() && (IsPlanned(pass) || may_be_planned)) {
    result.route = Route::kDiffers;
    return result;
  }
  place.arrivals = pass;
  if (stand_ == Stand::kCaptured) result.news = Shadow(slot, pass, difference);
  if (stand_ == Stand::kReady && pass == kPatientPasses && begun_ < pass) result.news = true;
  if (held_) {
    waiting_.push_back({slot, pass, std::move(arrival)});
    result.route = Route::kHeld;
    return result;
  }
  begun_ = std::max(begun_, pass);
  if (!IsPlanned(pass)) return result;
  result.route = Route::kPlanned;
  result.ticket = Put(slot, pass, std::move(arrival), now);
  return result;
}

bool PlanRun::Shadow(int slot, std::uint64_t pass, const std::string& difference) {
  if (!difference.empty()) {
    Fail("'" + plan_.slots[slot].name + "': " + difference);
  } else if (pass == kShadowPasses) {
    if (--unseen_ > 0) return false;
    stand_ = Stand::kReady;
    const std::string mixture = Mixture();
    if (!mixture.empty()) Fail(mixture);
  } else if (pass > kShadowPasses && unseen_ > 0) {
    const auto is_absent = [](const Place& place) { return place.arrivals < kShadowPasses; };
    const auto absent = std::find_if(places_.begin(), places_.end(), is_absent);
    Fail("'" + plan_.slots[absent - places_.begin()].name + "' is not executed in each pass");
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
      if (other.reduction.gpu == first.reduction.gpu) continue;
      const auto& [host, device] = first.reduction.gpu ? std::tie(other, first) : std::tie(first, other);
      return "'" + device.name + "' is on a GPU, and '" + host.name + "' in its bucket is not";
    }
  }
  return "";
}

PlanRun::Cut& PlanRun::CutOf(std::uint64_t pass) {
  auto cut = cuts_.rbegin();
  while (cut->from_pass > pass) ++cut;
  return *cut;
}

PlanRun::Cut* PlanRun::CutWith(int ticket) {
  for (Cut& cut : cuts_) {
    if (cut.base <= ticket && ticket < cut.base + static_cast<int>(cut.buckets.size())) return &cut;
  }
  return nullptr;
}

int PlanRun::Put(int slot, std::uint64_t pass, ArrivalPtr arrival, Clock::time_point now) {
  Time(slot, pass, now);
  places_[slot].busy = true;
  Cut& cut = CutOf(pass);
  const auto [index, position] = cut.where[slot];
  Bucket& bucket = cut.state[index];
  const int size = static_cast<int>(bucket.arrivals.size());
  if (bucket.missing == size) {
    bucket.pass = pass;
    bucket.first_arrival = now;
  }
  bucket.arrivals[position] = std::move(arrival);
  bucket.filled[position] = true;
  if (--bucket.missing > 0) return kNoTicket;
  bucket.last_arrival = now;
  ++times_last_[slot];
  return cut.base + index;
}

void PlanRun::Time(int slot, std::uint64_t pass, Clock::time_point now) {
  if (recut_asked_ || pass < timed_pass_) return;
  if (pass > timed_pass_) {
    timed_pass_ = pass;
    pass_start_ = now;
  }
  offset_sum_us_[slot] +=
      std::chrono::duration_cast<std::chrono::microseconds>(now - pass_start_).count();
  ++offsets_[slot];
}

Work PlanRun::Take(int ticket, std::vector<int>& tickets) {
  Cut* cut = CutWith(ticket);
  Bucket& bucket = cut->state[ticket - cut->base];
  if (bucket.missing != 0) throw std::logic_error("a bucket is due that is not complete here");
  Work work{&plan_, ticket, bucket.pass, cut->buckets[ticket - cut->base], std::move(bucket.arrivals),
            bucket.last_arrival};
  bucket.arrivals.clear();
  bucket.arrivals.resize(work.slots.size());
  bucket.filled.assign(work.slots.size(), false);
  bucket.missing = static_cast<int>(work.slots.size());
  for (int slot : work.slots) places_[slot].busy = false;
  if (zeros_) tickets = SupplyZeros();
  return work;
}

PlanRun::Progress PlanRun::Finished(const Work& work) {
  Progress progress;
  Cut* cut = CutWith(work.ticket);  // none if all ranks have joined meanwhile
  if (cut != nullptr) progress.pass_over = ++cut->done % cut->buckets.size() == 0;
  passes_done_ += progress.pass_over;
  if (!recut_asked_ && passes_done_ >= kTimedPasses) {
    recut_asked_ = true;
    progress.news = stand_ == Stand::kActive && plan_.slots.size() > 1;
  }
  return progress;
}

std::vector<int> PlanRun::SupplyZeros() {
  zeros_ = planned_until_ != kNever;
  std::vector<int> tickets;
  for (std::size_t slot = 0; zeros_ && slot < places_.size(); ++slot) {
    Place& place = places_[slot];
    const std::uint64_t pass = std::max(place.arrivals + 1, planned_from_);
    if (place.busy || pass >= planned_until_) continue;
    place.arrivals = pass;
    const int ticket = Put(static_cast<int>(slot), pass, nullptr, Clock::now());
    if (ticket != kNoTicket) tickets.push_back(ticket);
  }
  return tickets;
}

Statement PlanRun::Hold(bool joined, bool times) {
  held_ = true;
  Statement statement{plan_.hash, stand_, begun_, reason_, {}, {}};
  for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
    if (plan_.slots[slot].reduction.gpu) statement.gpu_slots.push_back(static_cast<int>(slot));
  }
  if (joined && stand_ == Stand::kActive) {
    statement.stand = Stand::kPausing;
    statement.reason = "has joined";
  } else if (joined && stand_ == Stand::kReady) {
    statement.stand = Stand::kCaptured;
  }
  if (times && recut_asked_ && !recut_) {
    for (std::size_t slot = 0; slot < offsets_.size(); ++slot) {
      statement.times.push_back(offset_sum_us_[slot] / std::max<std::int64_t>(offsets_[slot], 1));
    }
  }
  return statement;
}

PlanRun::Released PlanRun::Apply(const Decision& decision, int base, Buckets recut) {
  switch (decision.kind) {
    case Decision::kWait:
      if (stand_ < Stand::kActive) reason_ = decision.reason;
      break;
    case Decision::kCommit:
      if (stand_ == Stand::kReady) reason_.clear();
      stand_ = stand_ == Stand::kReady ? Stand::kActive : Stand::kEnding;
      planned_from_ = decision.from_pass;
      planned_until_ = kNever;
      if (cuts_.empty()) AddCut(0, base, plan_.buckets);
      break;
    case Decision::kRecut:
      recut_ = true;
      AddCut(decision.from_pass, base, std::move(recut));
      break;
    case Decision::kPause:
      if (stand_ == Stand::kActive) reason_ = decision.reason;
      stand_ = stand_ == Stand::kActive ? Stand::kCaptured : Stand::kFailed;
      planned_until_ = decision.from_pass;
      break;
    case Decision::kEnd:
    case Decision::kReject:
      stand_ = Stand::kFailed;
      announced_ = true;
      reason_ = decision.reason;
      if (planned_from_ != kNever) planned_until_ = std::min(planned_until_, decision.from_pass);
      break;
  }

  held_ = stand_ == Stand::kEnding;
  if (held_) return {};
  Released released;
  for (HeldArrival& one : waiting_) {
    begun_ = std::max(begun_, one.pass);
    if (!IsPlanned(one.pass)) {
      released.negotiated.push_back(std::move(one.arrival));
    } else if (places_[one.slot].busy) {
      --places_[one.slot].arrivals;
      released.overlapping.push_back(std::move(one.arrival));
    } else {
      const int ticket = Put(one.slot, one.pass, std::move(one.arrival), Clock::now());
      if (ticket != kNoTicket) released.tickets.push_back(ticket);
    }
  }
  waiting_.clear();
  return released;
}

void PlanRun::AddCut(std::uint64_t from_pass, int base, Buckets buckets) {
  Cut cut;
  cut.from_pass = from_pass;
  cut.base = base;
  cut.where.resize(plan_.slots.size());
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    const std::size_t size = buckets[index].size();
    for (std::size_t position = 0; position < size; ++position) {
      cut.where[buckets[index][position]] = {static_cast<int>(index), static_cast<int>(position)};
    }
    Bucket bucket;
    bucket.arrivals.resize(size);
    bucket.filled.assign(size, false);
    bucket.missing = static_cast<int>(size);
    cut.state.push_back(std::move(bucket));
  }
  cut.buckets = std::move(buckets);
  cuts_.push_back(std::move(cut));
}

void PlanRun::Restart() {
  for (Place& place : places_) place.arrivals = 0;
  begun_ = timed_pass_ = 0;
  zeros_ = false;
  planned_from_ = planned_until_ = kNever;
  unseen_ = static_cast<int>(places_.size());
  if (std::any_of(places_.begin(), places_.end(), [](const Place& place) { return place.busy; })) {
    return Fail("a pass was under way when all ranks had joined");
  }
  if (cuts_.size() > 1) cuts_.erase(cuts_.begin(), cuts_.end() - 1);
  if (!cuts_.empty()) cuts_[0].from_pass = 0;
  // Active still: all have joined in the round in which they said so.
  if (stand_ == Stand::kReady || stand_ == Stand::kActive) stand_ = Stand::kCaptured;
}

void PlanRun::Fail(const std::string& reason) {
  stand_ = Stand::kFailed;
  reason_ = reason;
}

void PlanRun::End(const std::string& reason) {
  if (stand_ != Stand::kActive && stand_ != Stand::kEnding) return Fail(reason);
  stand_ = Stand::kEnding;
  reason_ = reason;
  held_ = true;
}

std::vector<ArrivalPtr> PlanRun::Drain() {
  std::vector<ArrivalPtr> all;
  for (HeldArrival& one : waiting_) all.push_back(std::move(one.arrival));
  waiting_.clear();
  for (Cut& cut : cuts_) {
    for (Bucket& bucket : cut.state) {
      for (ArrivalPtr& arrival : bucket.arrivals) {
        if (arrival != nullptr) all.push_back(std::move(arrival));
      }
    }
  }
  return all;
}

std::vector<PlanRun::Waiting> PlanRun::WaitingSince(Clock::time_point since) const {
  std::vector<Waiting> waiting;
  for (const Cut& cut : cuts_) {
    for (std::size_t index = 0; index < cut.state.size(); ++index) {
      const Bucket& bucket = cut.state[index];
      if (bucket.missing == static_cast<int>(bucket.arrivals.size())) continue;
      if (bucket.first_arrival > since) continue;
      Waiting one{bucket.pass, {}, {}};
      for (std::size_t position = 0; position < bucket.filled.size(); ++position) {
        auto& list = bucket.filled[position] ? one.here : one.missing;
        list.push_back(cut.buckets[index][position]);
      }
      waiting.push_back(std::move(one));
    }
  }
  return waiting;
}

}  // namespace horovod_opt
