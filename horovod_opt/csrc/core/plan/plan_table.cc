#include "horovod_opt/csrc/core/plan/plan_table.h"

#include <algorithm>
#include <stdexcept>

#include "horovod_opt/csrc/core/plan/rebuild_buckets.h"

namespace horovod_opt {
namespace {

// A plan rests only if it was not used for so long: plans that take turns do not rest by turns.
constexpr std::int64_t kIdleMs = 1000;
// So many graphs that are gone keep their keys.
constexpr std::size_t kRemoved = 64;

const char* StateName(Stand stand) {
  switch (stand) {
    case Stand::kCaptured:
      return "shadowed";
    case Stand::kResting:
    case Stand::kReady:
      return "ready";
    case Stand::kFailed:
    case Stand::kEnded:
      return "negotiated";
    default:
      return "active";
  }
}

}  // namespace

PlanLane::PlanLane(int capacity, std::function<void(int)> ready, std::function<void()> meet)
    : ready_(std::move(ready)), meet_(std::move(meet)), owners_(capacity, nullptr) {
  for (int ticket = 0; ticket < capacity; ++ticket) free_.insert(free_.end(), ticket);
}

void PlanLane::Add(Plan plan) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  const auto found = plans_.find(plan.hash);
  if (found != plans_.end()) return Bind(*found->second, plan);
  Entry& entry = *plans_.emplace(plan.hash, std::make_unique<Entry>(plan)).first->second;
  if (!disabled_.empty()) entry.run.Fail(disabled_);
  Bind(entry, plan);
}

void PlanLane::Bind(Entry& entry, const Plan& plan) {
  ++entry.graphs;
  for (std::size_t slot = 0; slot < plan.slots.size(); ++slot) {
    const Binding own{&entry, static_cast<int>(slot)};
    Entry& other = *bindings_.emplace(plan.slots[slot].key, own).first->second.entry;
    if (&other == &entry) continue;
    const std::string reason = "'" + plan.slots[slot].name + "' also belongs to plan ";
    {
      std::lock_guard<std::mutex> guard(other.mutex);
      other.run.End(reason + plan.hash);
    }
    std::lock_guard<std::mutex> guard(entry.mutex);
    entry.run.End(reason + other.run.plan().hash);
    WantCouncil();
  }
}

void PlanLane::Remove(const Plan& plan) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  const auto found = plans_.find(plan.hash);
  if (found == plans_.end()) return;
  Entry* const entry = found->second.get();
  --entry->graphs;
  std::vector<std::int64_t> keys;
  for (const Slot& slot : plan.slots) keys.push_back(slot.key);
  removed_.emplace_back(entry, std::move(keys));
  if (removed_.size() <= kRemoved) return;
  Unbind(removed_.front().first, removed_.front().second);
  removed_.pop_front();
  if (entry->graphs == 0) WantCouncil();
}

void PlanLane::Unbind(const Entry* entry, const std::vector<std::int64_t>& keys) {
  for (std::int64_t key : keys) {
    const auto binding = bindings_.find(key);
    if (binding != bindings_.end() && binding->second.entry == entry) bindings_.erase(binding);
  }
}

void PlanLane::Reject(const std::string& hash, const std::string& reason) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto found = plans_.find(hash);
  if (found == plans_.end()) return;
  std::lock_guard<std::mutex> guard(found->second->mutex);
  found->second->run.End(reason);
  WantCouncil();
}

void PlanLane::Disable(const std::string& reason) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  disabled_ = reason;
}

Route PlanLane::Arrive(std::int64_t key, std::int64_t bytes, const Reduction& reduction,
                       const std::string& problem, ArrivalPtr& arrival) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  if (refusing_) return Route::kNegotiated;
  const auto found = bindings_.find(key);
  if (found == bindings_.end()) return Route::kNegotiated;
  Entry& entry = *found->second.entry;
  const int number = found->second.slot;
  std::string difference = problem;
  PlanRun::Arrived arrived;
  {
    std::lock_guard<std::mutex> guard(entry.mutex);
    const std::string shape = entry.run.See(number, reduction.device, arrival->shape);
    const Slot& slot = entry.run.plan().slots[number];
    if (difference.empty()) difference = Difference(slot, bytes, reduction);
    if (difference.empty()) difference = shape;
    arrived = entry.run.Arrive(number, difference, arrival, Clock::now());
  }
  if (arrived.news) WantCouncil();
  if (arrived.ticket != kNoTicket) ready_(arrived.ticket);
  return arrived.route;
}

PlanLane::Entry& PlanLane::EntryOf(int ticket) const {
  Entry* const owner = owners_.at(ticket);
  if (owner == nullptr) throw std::logic_error("a bucket is due that no plan has");
  return *owner;
}

Work PlanLane::Take(int ticket) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  Entry& entry = EntryOf(ticket);
  std::vector<int> tickets;
  Work work;
  {
    std::lock_guard<std::mutex> guard(entry.mutex);
    work = entry.run.Take(ticket, tickets);
  }
  if (!refusing_) {
    for (int next : tickets) ready_(next);
  }
  return work;
}

bool PlanLane::Finished(const Work& work) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  Entry& entry = EntryOf(work.ticket);
  std::lock_guard<std::mutex> guard(entry.mutex);
  const auto progress = entry.run.Finished(work);
  if (progress.news) WantCouncil();
  return progress.pass_over;
}

void PlanLane::Join() {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  joined_ = true;
  WantCouncil();
}

void PlanLane::Restart() {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  joined_ = false;
  for (auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    entry->run.Restart();
  }
}

std::string PlanLane::MeetingRow(bool times, Clock::time_point now) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  wants_council_.store(false, std::memory_order_release);
  std::vector<Statement> statements;
  for (auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    statements.push_back(entry->run.Hold(joined_, times, now));
    statements.back().bound = entry->graphs > 0;
  }
  return ToRow(statements);
}

std::vector<int> PlanLane::Allocate(std::size_t buckets) {
  std::vector<int> tickets;
  if (free_.size() < buckets) return tickets;
  while (tickets.size() < buckets) {
    tickets.push_back(*free_.begin());
    free_.erase(free_.begin());
  }
  return tickets;
}

// Takes tickets from those plans that were not used for the longest time until `buckets` are free.
void PlanLane::Rest(std::vector<Decision>& decisions, std::size_t buckets, Outcome& outcome) {
  std::vector<Decision*> candidates;
  for (Decision& decision : decisions) {
    if (decision.kind != Decision::kWait || !decision.may_rest) continue;
    if (decision.idle_ms >= kIdleMs) candidates.push_back(&decision);
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const Decision* a, const Decision* b) {
    return a->idle_ms > b->idle_ms;
  });
  for (Decision* decision : candidates) {
    if (free_.size() >= buckets) return;
    decision->kind = Decision::kRest;
    decision->reason = "its place was given to other plans; active again after its next pass";
    Carry(plans_.at(decision->hash).get(), *decision, {}, {}, outcome);
  }
}

void PlanLane::Say(const Entry* entry, const Decision& decision, Outcome& outcome) const {
  const std::string name = entry == nullptr ? "" : " (" + entry->run.plan().name + ")";
  outcome.rejected.push_back("plan " + decision.hash + name + ": " + decision.reason);
}

void PlanLane::Linger(const Entry* entry, const Decision& decision, Outcome& outcome) {
  if (lingering_.insert(decision.hash).second) Say(entry, decision, outcome);
}

void PlanLane::Carry(Entry* entry, const Decision& decision, std::vector<int> tickets,
                     Buckets recut, Outcome& outcome) {
  if (entry == nullptr) return;
  std::lock_guard<std::mutex> guard(entry->mutex);
  for (int ticket : tickets) owners_[ticket] = entry;
  auto released = entry->run.Apply(decision, std::move(tickets), std::move(recut));
  for (int ticket : released.freed) {
    owners_[ticket] = nullptr;
    free_.insert(ticket);
  }
  owed_.insert(owed_.end(), released.owed.begin(), released.owed.end());
  for (int ticket : released.tickets) ready_(ticket);
  for (ArrivalPtr& arrival : released.negotiated) outcome.negotiated.push_back(std::move(arrival));
  for (ArrivalPtr& arrival : released.overlapping) {
    outcome.overlapping.push_back(std::move(arrival));
  }
  if (released.news) WantCouncil();
}

// All ranks make the same decisions in the same order, so they give out the same tickets: first those
// that free some, then those that need some, which may let others rest.
PlanLane::Outcome PlanLane::Apply(const std::vector<std::string>& rows) {
  Outcome outcome;
  std::lock_guard<std::shared_mutex> lock(mutex_);
  // Every rank has taken back, in the last council, what these buckets held.
  for (int ticket : std::exchange(owed_, {})) ready_(ticket);
  std::vector<Decision> decisions = Decide(rows);
  const auto entry_of = [&](const Decision& decision) {
    const auto found = plans_.find(decision.hash);
    return found == plans_.end() ? nullptr : found->second.get();
  };
  const auto needs_tickets = [](const Decision& decision) {
    return decision.kind == Decision::kCommit || decision.kind == Decision::kRecut;
  };
  for (const Decision& decision : decisions) {
    if (decision.kind == Decision::kWait || needs_tickets(decision)) continue;
    Entry* const entry = entry_of(decision);
    const bool ended = entry != nullptr && entry->run.stand() == Stand::kEnded;
    if (decision.kind == Decision::kEnd && !ended) Say(entry, decision, outcome);
    Carry(entry, decision, {}, {}, outcome);
    if (decision.kind != Decision::kForget) continue;
    lingering_.erase(decision.hash);
    if (entry == nullptr || entry->graphs > 0) continue;
    const auto is_its = [&](const auto& graph) {
      if (graph.first == entry) Unbind(entry, graph.second);
      return graph.first == entry;
    };
    removed_.erase(std::remove_if(removed_.begin(), removed_.end(), is_its), removed_.end());
    plans_.erase(decision.hash);
  }
  for (Decision& decision : decisions) {
    if (!needs_tickets(decision)) continue;
    Entry* const entry = entry_of(decision);  // all ranks have the plan
    Buckets recut;
    if (decision.kind == Decision::kRecut) recut = Recut(entry->run.plan(), decision.times);
    std::size_t buckets = recut.size();
    if (decision.kind == Decision::kCommit && !entry->run.Committed()) {
      buckets = entry->run.buckets().size();
    }
    Rest(decisions, buckets, outcome);
    std::vector<int> tickets = Allocate(buckets);
    if (tickets.size() < buckets) {
      decision.kind = Decision::kWait;
      decision.reason = "plans in use have " + std::to_string(owners_.size() - free_.size()) +
                        " of " + std::to_string(owners_.size()) + " buckets, and this one needs " +
                        std::to_string(buckets);
      Linger(entry, decision, outcome);
      continue;
    }
    Carry(entry, decision, std::move(tickets), std::move(recut), outcome);
  }
  for (const Decision& decision : decisions) {
    if (decision.kind != Decision::kWait) continue;
    Entry* const entry = entry_of(decision);
    if (!decision.reason.empty() && decision.from_pass > kPatientPasses) {
      Linger(entry, decision, outcome);
    }
    Carry(entry, decision, {}, {}, outcome);
  }
  if (!joined_) return outcome;
  for (auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    for (int ticket : entry->run.SupplyZeros()) ready_(ticket);
  }
  return outcome;
}

bool PlanLane::AnyCommitted(bool anywhere) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  for (const auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    if (!entry->run.Committed()) continue;
    for (const Slot& slot : entry->run.plan().slots) {
      if (anywhere || slot.reduction.OnGpu()) return true;
    }
  }
  return false;
}

void PlanLane::Refuse() {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  refusing_ = true;
}

std::vector<ArrivalPtr> PlanLane::Close() {
  Refuse();
  std::lock_guard<std::shared_mutex> lock(mutex_);
  std::vector<ArrivalPtr> left;
  for (auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    for (ArrivalPtr& arrival : entry->run.Drain()) left.push_back(std::move(arrival));
  }
  return left;
}

std::vector<PlanLane::Report> PlanLane::Reports() const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<Report> reports;
  for (const auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    const PlanRun& run = entry->run;
    Report report;
    report.hash = hash;
    report.name = run.plan().name;
    report.state = StateName(run.stand());
    report.reason = run.reason();
    report.passes = run.passes_done();
    report.buckets = run.buckets();
    for (const Slot& slot : run.plan().slots) report.slots.push_back(slot.name);
    report.times_last = run.times_last();
    reports.push_back(std::move(report));
  }
  return reports;
}

std::set<std::pair<std::string, std::string>> PlanLane::WaitingSince(
    Clock::time_point since) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  std::set<std::pair<std::string, std::string>> waiting;
  for (const auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    for (std::string& name : entry->run.NamesWaitingSince(since)) {
      waiting.emplace(hash, std::move(name));
    }
  }
  return waiting;
}

std::vector<PlanLane::Late> PlanLane::LateSince(Clock::time_point since) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<Late> late;
  for (const auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    const auto name = [&](int slot) { return entry->run.plan().slots[slot].name; };
    for (const auto& waiting : entry->run.WaitingSince(since)) {
      Late one{entry->run.plan().name, waiting.pass, {}, {}};
      for (int slot : waiting.here) one.here.push_back(name(slot));
      for (int slot : waiting.missing) one.missing.push_back(name(slot));
      late.push_back(std::move(one));
    }
  }
  return late;
}

}  // namespace horovod_opt
