#include "tests/native/exploration/job.h"

#include <algorithm>
#include <functional>

namespace horovod_opt {
namespace exploration {
namespace {

constexpr int kBackground = 5, kPlannedPath = 6, kFate = 7;  // threads, after those of plans
constexpr int kTries = 2;  // of a tensor that is refused; after those it waits for its name

using Disturbance = Scenario::Disturbance;

}  // namespace

Job::Job(const Scenario& scenario, const std::vector<Event>* known)
    : scenario_(scenario), ranks_(scenario.ranks) {
  const auto& disturbances = scenario_.disturbances;
  if (std::any_of(disturbances.begin(), disturbances.end(),
                  [](const Disturbance& what) { return what.kind == Disturbance::kDeath; })) {
    presence_ = std::make_unique<GroupPresence>(scenario.ranks);
  }
  for (int rank = 0; rank < scenario.ranks; ++rank) {
    ranks_[rank].threads.resize(scenario.plans.size());
    ranks_[rank].plans = std::make_unique<RankPlans>(
        scenario.capacity, [this, rank](int bucket_id) { Announced(rank, bucket_id); });
  }
  if (known != nullptr) {
    for (const Event& event : *known) Do(event);
  } else {
    for (auto enabled = Enabled(); !enabled.empty(); enabled = Enabled()) {
      known_events_.push_back(enabled.front());
      Do(enabled.front());
    }
  }
  is_known_ = false;
}

int Job::Limit(int rank) const {
  if (is_known_) return scenario_.known;
  return scenario_.joins.empty() ? scenario_.iterations : scenario_.joins[rank];
}

bool Job::InVote() const {
  return Count([](const Rank& rank) { return rank.voted; }) > 0;
}

std::vector<Event> Job::Enabled() const {
  std::vector<Event> events;
  for (int rank = 0; rank < scenario_.ranks; ++rank) {
    if (!ranks_[rank].dead) Enable(rank, events);
  }
  return events;
}

void Job::Enable(int rank, std::vector<Event>& events) const {
  const Rank& self = ranks_[rank];
  EnableFramework(rank, events);
  if (self.closed) return;
  if (!self.work && self.taken < queue_.Size())
    events.push_back(MakeEvent(rank, kPlannedPath, kTake));
  const bool all_have_come =
      Count([&](const Rank& peer) { return peer.taken >= self.taken; }) == scenario_.ranks;
  if (self.work && all_have_come) events.push_back(MakeEvent(rank, kPlannedPath, kReduce));
  EnableBackground(rank, events);
  if (presence_ != nullptr && presence_->MissedBy(rank) >= 0)
    events.push_back(MakeEvent(rank, kFate, kNotice));
  if (is_known_ || disturbed_ == scenario_.disturbances.size()) return;
  const Disturbance& next = scenario_.disturbances[disturbed_];
  if (next.rank != rank) return;
  const Thread& thread = self.threads[next.plan];
  // A graph goes only after it has been executed for the last time.
  const bool may_be_gone = next.kind != Disturbance::kRemove || thread.iteration > Limit(rank) ||
                           (thread.iteration == Limit(rank) &&
                            thread.slots.count(Limit(rank)) > 0 && !MaySend(rank, next.plan, -1));
  if (may_be_gone) events.push_back(MakeEvent(rank, kFate, kDisturb));
}

// `slot`: -1: any.
bool Job::MaySend(int rank, int plan, int slot) const {
  const Thread& thread = ranks_[rank].threads[plan];
  if (thread.iteration > Limit(rank)) return false;
  const int after = scenario_.late.empty() ? 0 : scenario_.late[plan];
  if (after > 0 && ranks_[rank].threads[0].iteration <= after) return false;
  if (thread.refused) return false;
  const auto tried = thread.tries.find(slot);
  if (tried != thread.tries.end() && tried->second == kTries &&
      ranks_[rank].negotiated.count({plan, slot}) > 0)
    return false;
  const auto known = thread.slots.find(thread.iteration);
  if (known == thread.slots.end()) return !scenario_.in_order || slot <= 0;
  const auto& slots = known->second;
  const auto next = std::find(slots.begin(), slots.end(), Sent::kNot);
  if (slot < 0 || scenario_.in_order)
    return next != slots.end() && (slot < 0 || next - slots.begin() == slot);
  return slots[slot] == Sent::kNot;
}

bool Job::MayLeave(int rank) const {
  const Thread& thread = ranks_[rank].threads[0];
  const auto known = thread.slots.find(thread.iteration);
  int sent = 0;
  if (known != thread.slots.end()) {
    const auto& slots = known->second;
    sent = static_cast<int>(slots.size() - std::count(slots.begin(), slots.end(), Sent::kNot));
  }
  return std::any_of(scenario_.leaves.begin(), scenario_.leaves.end(), [&](const auto& leave) {
    return leave.rank == rank && leave.iteration == thread.iteration && leave.sent == sent;
  });
}

void Job::EnableFramework(int rank, std::vector<Event>& events) const {
  const Rank& self = ranks_[rank];
  if (self.joined) return;
  bool is_over = true;
  for (std::size_t plan = 0; plan < scenario_.plans.size(); ++plan) {
    const Thread& thread = self.threads[plan];
    is_over = is_over && thread.iteration > Limit(rank);
    if (thread.refused) {
      events.push_back(MakeEvent(rank, static_cast<int>(plan), kRefuse));
      continue;
    }
    if (plan == 0 && MayLeave(rank)) {
      events.push_back(MakeEvent(rank, 0, kLeave));
      continue;
    }
    for (int slot = 0; slot < scenario_.plans[plan].slots; ++slot) {
      if (MaySend(rank, static_cast<int>(plan), slot))
        events.push_back(MakeEvent(rank, static_cast<int>(plan), kSend, slot));
    }
  }
  if (is_over && !is_known_ && !scenario_.joins.empty())
    events.push_back(MakeEvent(rank, 0, kJoin));
}

void Job::EnableBackground(int rank, std::vector<Event>& events) const {
  const Rank& self = ranks_[rank];
  const auto all = [&](const auto& is) { return Count(is) == scenario_.ranks; };
  if (!InVote()) {
    if (shutdown_) {
      if (!self.finished) events.push_back(MakeEvent(rank, kBackground, kFinish));
      if (!all([](const Rank& peer) { return peer.finished; })) return;
      const bool is_idle = !self.work && self.taken == queue_.Size();
      if (is_idle && !self.plans->AnyUntaken(self.untaken))
        events.push_back(MakeEvent(rank, kBackground, kClose));
      return;
    }
    const bool any_restarted = Count([](const Rank& peer) { return peer.restarted; }) > 0;
    if (all([](const Rank& peer) { return peer.joined || peer.restarted; }) && !self.restarted)
      events.push_back(MakeEvent(rank, kBackground, kRestart));
    if (any_restarted) return;
  }
  const bool is_wanted =
      InVote() || Count([](const Rank& peer) { return peer.plans->WantsVote(); }) > 0;
  if (is_wanted && !self.voted) events.push_back(MakeEvent(rank, kBackground, kVote));
  if (!all([](const Rank& peer) { return peer.voted; }) || self.applied) return;
  events.push_back(MakeEvent(rank, kBackground, kApply));
  if (scenario_.leaves.empty() || self.deferred.empty() || MayLeave(rank)) return;
  for (int slot = 0; slot < scenario_.plans[0].slots; ++slot) {
    if (MaySend(rank, 0, slot)) events.push_back(MakeEvent(rank, kBackground, kApply, 1 + slot));
  }
}

Footprint Job::Do(const Event& event) {
  const int rank = event.actor / 8, argument = event.code % 16;
  footprint_ = 0;
  Touch(rank);
  switch (KindOf(event)) {
    case kSend:
      Send(rank, event.actor % 8, argument);
      break;
    case kRefuse:
      Refuse(rank, event.actor % 8);
      break;
    case kTake:
      Take(rank);
      break;
    case kReduce:
      Reduce(rank);
      break;
    case kVote:
      CastVote(rank);
      break;
    case kApply:
      Apply(rank, argument == 0 ? std::nullopt : std::make_optional(argument - 1));
      break;
    case kJoin:
      TouchAll();
      ranks_[rank].joined = true;
      ranks_[rank].plans->Join();
      for (int plan = 0; plan < static_cast<int>(scenario_.plans.size()); ++plan) {
        for (int slot = 0; slot < scenario_.plans[plan].slots; ++slot) TryNegotiation({plan, slot});
      }
      break;
    case kRestart:
      Restart(rank);
      break;
    case kLeave:
      Leave(rank);
      break;
    case kDisturb:
      Disturb(rank);
      break;
    case kFinish:
      Finish(rank);
      break;
    case kClose:
      Close(rank);
      break;
    case kNotice:
      Notice(rank);
      break;
  }
  return footprint_;
}

std::string Job::StateOf(const Rank& rank) const {
  std::string state;
  const auto add = [&](auto number) { state += std::to_string(number) + ","; };
  for (bool is : {rank.voted, rank.applied, rank.joined, rank.restarted, rank.finished, rank.closed,
                  rank.dead, rank.work.has_value()}) {
    state += is ? '1' : '0';
  }
  add(rank.taken);
  add(rank.history);
  if (rank.voted) add(std::hash<std::string>()(rank.row));
  for (const Thread& thread : rank.threads) {
    add(thread.iteration);
    for (const auto& [iteration, slots] : thread.slots) {
      add(iteration);
      for (Sent sent : slots) state += static_cast<char>('a' + static_cast<int>(sent));
    }
    if (thread.refused) add(*thread.refused);
    for (const auto& [slot, tries] : thread.tries) {
      state += 't';
      add(10 * slot + tries);
    }
  }
  for (const auto& [name, iterations] : rank.negotiated) {
    for (int iteration : iterations)
      state += Tensor{name.first, name.second, iteration}.Name() + "n";
  }
  for (const Tensor& tensor : rank.deferred) state += tensor.Name() + "d";
  for (const auto& [bucket_id, number] : rank.announced) {
    add(bucket_id);
    add(number);
  }
  for (const auto* names : {&rank.different, &rank.left_out, &rank.told}) {
    for (const auto& [plan, slot] : *names) add(100 * plan + slot);
    state += ';';
  }
  for (int bucket_id : rank.untaken) add(bucket_id);
  return state + rank.plans->State();
}

std::string Job::State() const {
  std::string state = std::to_string(disturbed_) + (shutdown_ ? "s" : "") + "[";
  for (int position = 0; position < queue_.Size(); ++position)
    state += std::to_string(queue_.Entry(position)) + ",";
  for (const Rank& rank : ranks_) state += "]\n[" + StateOf(rank);
  return state;
}

std::string Job::Name(const Event& event) const {
  static const char* const kNames[] = {
      "sends", "is refused", "takes a bucket",  "has reduced it", "votes",    "decides",
      "joins", "restarts",   "leaves its step", "is disturbed",   "finishes", "closes",
      "misses a rank"};
  const int argument = event.code % 16;
  std::string name = "rank " + std::to_string(event.actor / 8) + " " + kNames[KindOf(event)];
  if (KindOf(event) == kSend)
    name += " p" + std::to_string(event.actor % 8) + "." + std::to_string(argument);
  if (KindOf(event) == kApply && argument > 0)
    name += ", and p0." + std::to_string(argument - 1) + " is sent before it hands back";
  return name;
}

MakeWorld JobsOf(const Scenario& scenario) {
  return
      [scenario, known = Job(scenario).known()] { return std::make_unique<Job>(scenario, &known); };
}

}  // namespace exploration
}  // namespace horovod_opt
