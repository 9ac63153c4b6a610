#include "plan_run.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace horovod_opt {
namespace {

// The first shows the tensors, the second that each of them comes again.
constexpr std::uint64_t kShadowPasses = 2;
constexpr std::uint64_t kTimedPasses = 5;

std::string Text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (std::int64_t dimension : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(dimension);
  }
  return "[" + text + "]";
}

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

std::string PlanRun::See(int slot, int device, const std::vector<std::int64_t>& shape) {
  Place& place = places_[slot];
  if (place.arrivals == 0) plan_.slots[slot].reduction.device = device;
  if (!place.seen) place.shape = shape;
  place.seen = true;
  if (shape == place.shape) return "";
  return "it has the shape " + Text(shape) + ", and had " + Text(place.shape) + " in its first pass";
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
  place.arrivals = pass;
  last_arrival_ = now;
  if (!difference.empty() && !held_ && IsPlanned(pass)) {
    Differs(slot, difference);
    result.news = true;
  }
  if (stand_ == Stand::kCaptured) result.news = Shadow(slot, pass, difference);
  if (stand_ == Stand::kReady && pass == kPatientPasses && begun_ < pass) result.news = true;
  if (stand_ == Stand::kResting) {
    stand_ = Stand::kReady;
    result.news = true;
  }
  if (held_) {
    waiting_.push_back({slot, pass, difference, std::move(arrival)});
    result.route = Route::kHeld;
    return result;
  }
  begun_ = std::max(begun_, pass);
  if (!IsPlanned(pass)) return result;
  result.route = Route::kPlanned;
  result.ticket = Put(slot, pass, std::move(arrival), now);
  return result;
}

void PlanRun::Differs(int slot, const std::string& difference) {
  stand_ = Stand::kEnding;
  reason_ = "'" + plan_.slots[slot].name + "': " + difference;
  held_ = true;
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
      if (other.reduction.device == first.reduction.device) continue;
      return "'" + first.name + "' is " + first.reduction.Where() + ", and '" + other.name +
             "' in its bucket " + other.reduction.Where();
    }
  }
  return "";
}

PlanRun::Cut& PlanRun::CutOf(std::uint64_t pass) {
  auto cut = cuts_.rbegin();
  while (cut->from_pass > pass) ++cut;
  return *cut;
}

PlanRun::Bucket* PlanRun::BucketOf(int ticket, Cut*& cut, std::size_t& index) {
  for (Cut& one : cuts_) {
    for (std::size_t i = 0; i < one.state.size(); ++i) {
      if (one.state[i].ticket != ticket) continue;
      cut = &one;
      index = i;
      return &one.state[i];
    }
  }
  return nullptr;
}

template <class Do>
void PlanRun::ForEachBucket(const Do& act) {
  for (Cut& cut : cuts_) {
    for (std::size_t i = 0; i < cut.state.size(); ++i) act(cut.state[i], cut.buckets[i]);
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
  ++bucket.completed;
  ++outstanding_;
  return bucket.ticket;
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
  Cut* cut = nullptr;
  std::size_t index = 0;
  Bucket* const bucket = BucketOf(ticket, cut, index);
  if (bucket == nullptr) throw std::logic_error("a bucket is due that no plan has");
  Work work;
  work.plan = &plan_;
  work.ticket = ticket;
  work.pass = bucket->pass;
  if (bucket->taken_back) {
    bucket->taken_back = false;
    --outstanding_;
    return work;
  }
  if (bucket->missing != 0) throw std::logic_error("a bucket is due that is not complete here");
  work.slots = cut->buckets[index];
  work.arrivals = std::move(bucket->arrivals);
  work.last_arrival = bucket->last_arrival;
  Empty(*bucket, work.slots);
  if (zeros_ && !held_) tickets = SupplyZeros();
  return work;
}

PlanRun::Progress PlanRun::Finished(const Work& work) {
  Progress progress;
  --outstanding_;
  Cut* cut = nullptr;  // none if all ranks have joined meanwhile
  std::size_t index = 0;
  if (BucketOf(work.ticket, cut, index) != nullptr) {
    progress.pass_over = ++cut->done % cut->buckets.size() == 0;
  }
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

Statement PlanRun::Hold(bool joined, bool times, Clock::time_point now) {
  held_ = true;
  Statement statement;
  statement.hash = plan_.hash;
  statement.stand = stand_;
  statement.begun = begun_;
  statement.reason = reason_;
  const auto on_gpu = [](const Slot& slot) { return slot.reduction.OnGpu(); };
  if (std::any_of(plan_.slots.begin(), plan_.slots.end(), on_gpu)) {
    for (const Slot& slot : plan_.slots) statement.devices.push_back(slot.reduction.device);
  }
  bool filled = false;
  ForEachBucket([&](const Bucket& bucket, const std::vector<int>& slots) {
    statement.completed.push_back(bucket.completed);
    filled = filled || bucket.missing < static_cast<int>(slots.size());
  });
  statement.under_way = filled || outstanding_ > 0 || !waiting_.empty();
  statement.whole = std::all_of(places_.begin(), places_.end(), [&](const Place& place) {
    return place.arrivals == places_[0].arrivals;
  });
  statement.idle_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now - last_arrival_).count();
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

PlanRun::Released PlanRun::Apply(const Decision& decision, std::vector<int> tickets, Buckets recut) {
  Released released;
  switch (decision.kind) {
    case Decision::kWait:
      if (stand_ < Stand::kActive && stand_ != Stand::kResting) reason_ = decision.reason;
      break;
    case Decision::kCommit:
      if (stand_ == Stand::kReady) reason_.clear();
      stand_ = stand_ == Stand::kReady ? Stand::kActive : Stand::kEnding;
      planned_from_ = decision.from_pass;
      planned_until_ = kNever;
      for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
        plan_.slots[slot].devices = decision.devices.empty() ? nullptr : decision.devices[slot];
      }
      if (cuts_.empty()) AddCut(0, tickets, Buckets(buckets()));
      break;
    case Decision::kRecut:
      recut_ = true;
      AddCut(decision.from_pass, tickets, std::move(recut));
      break;
    case Decision::kPause:
      if (stand_ == Stand::kActive) reason_ = decision.reason;
      stand_ = stand_ == Stand::kActive ? Stand::kCaptured : Stand::kFailed;
      planned_until_ = decision.from_pass;
      break;
    case Decision::kRest:
      if (stand_ == Stand::kActive) {
        stand_ = Stand::kResting;
        reason_ = decision.reason;
      }
      planned_from_ = planned_until_ = kNever;
      rested_ = Buckets(buckets());
      Free(released);
      break;
    case Decision::kEnd:
      if (stand_ != Stand::kEnded) reason_ = decision.reason;
      stand_ = Stand::kEnded;
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
    released.owed.push_back(bucket.ticket);
    released.news = true;
  });
}

void PlanRun::Free(Released& released) {
  ForEachBucket([&](const Bucket& bucket, const std::vector<int>&) {
    released.freed.push_back(bucket.ticket);
  });
  cuts_.clear();
}

// Starts anew, as a rank does that hears of the plan only now. What has arrived since Hold() is the
// first that counts.
void PlanRun::Forget(Released& released) {
  Free(released);
  std::vector<HeldArrival> waiting = std::move(waiting_);
  *this = PlanRun(std::move(plan_));
  for (HeldArrival& one : waiting) {
    See(one.slot, plan_.slots[one.slot].reduction.device, one.arrival->shape);
    Arrive(one.slot, one.difference, one.arrival, Clock::now());
    released.negotiated.push_back(std::move(one.arrival));
  }
}

// Lets the held arrivals go, unless the plan has to end first.
void PlanRun::Release(Released& released) {
  for (const HeldArrival& one : waiting_) {
    if (one.difference.empty() || !IsPlanned(one.pass)) continue;
    Differs(one.slot, one.difference);
    released.news = true;
    break;
  }
  held_ = stand_ == Stand::kEnding;
  if (held_) return;
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
}

void PlanRun::AddCut(std::uint64_t from_pass, const std::vector<int>& tickets, Buckets buckets) {
  Cut cut;
  cut.from_pass = from_pass;
  cut.where.resize(plan_.slots.size());
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    const std::size_t size = buckets[index].size();
    for (std::size_t position = 0; position < size; ++position) {
      cut.where[buckets[index][position]] = {static_cast<int>(index), static_cast<int>(position)};
    }
    Bucket bucket;
    bucket.ticket = tickets.at(index);
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
    if (stand_ != Stand::kEnded) Fail("a pass was under way when all ranks had joined");
    return;
  }
  for (Cut& cut : cuts_) cut.from_pass = 0;
  // Active still: all have joined in the round in which they said so.
  if (stand_ != Stand::kEnding && stand_ < Stand::kFailed) stand_ = Stand::kCaptured;
}

void PlanRun::Fail(const std::string& reason) {
  stand_ = Stand::kFailed;
  reason_ = reason;
}

void PlanRun::End(const std::string& reason) {
  if (stand_ == Stand::kEnded) return;
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

std::vector<std::string> PlanRun::NamesWaitingSince(Clock::time_point since) const {
  std::vector<std::string> names;
  for (const Cut& cut : cuts_) {
    for (const Bucket& bucket : cut.state) {
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
