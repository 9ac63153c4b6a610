#include "plan_lane.h"

#include "recut.h"

namespace horovod_opt {
namespace {

const char* StateName(Stand stand) {
  switch (stand) {
    case Stand::kCaptured:
      return "shadowed";
    case Stand::kReady:
      return "ready";
    case Stand::kFailed:
      return "negotiated";
    default:
      return "active";
  }
}

}  // namespace

void PlanLane::Add(Plan plan) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  const auto found = plans_.find(plan.hash);
  if (found != plans_.end()) return Bind(*found->second, plan);
  Entry& entry = *plans_.emplace(plan.hash, std::make_unique<Entry>(plan)).first->second;
  if (!disabled_.empty()) entry.run.Fail(disabled_);
  Bind(entry, plan);
}

void PlanLane::Bind(Entry& entry, const Plan& plan) {
  for (std::size_t slot = 0; slot < plan.slots.size(); ++slot) {
    const std::size_t key = static_cast<std::size_t>(plan.slots[slot].key);
    if (key >= bindings_.size()) bindings_.resize(key + 1);
    Binding& binding = bindings_[key];
    if (binding.entry == &entry) continue;
    if (binding.entry != nullptr) {
      const std::string reason = "'" + plan.slots[slot].name + "' also belongs to plan ";
      Entry& other = *binding.entry;
      {
        std::lock_guard<std::mutex> guard(other.mutex);
        other.run.End(reason + plan.hash);
      }
      std::lock_guard<std::mutex> guard(entry.mutex);
      entry.run.End(reason + other.run.plan().hash);
      WantCouncil();
      continue;
    }
    binding = {&entry, static_cast<int>(slot)};
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

PlanLane::Arrived PlanLane::Arrive(std::int64_t key, std::int64_t bytes, const Reduction& reduction,
                                   const std::string& problem, ArrivalPtr& arrival) {
  Arrived result;
  std::shared_lock<std::shared_mutex> lock(mutex_);
  if (refusing_ || key <= 0 || static_cast<std::size_t>(key) >= bindings_.size()) return result;
  const Binding binding = bindings_[key];
  if (binding.entry == nullptr) return result;
  Entry& entry = *binding.entry;
  const Slot& slot = entry.run.plan().slots[binding.slot];
  std::string difference = problem;
  PlanRun::Arrived arrived;
  {
    std::lock_guard<std::mutex> guard(entry.mutex);
    entry.run.See(binding.slot, reduction.gpu);
    if (difference.empty()) difference = Difference(slot, bytes, reduction);
    arrived = entry.run.Arrive(binding.slot, difference, arrival, Clock::now());
  }
  if (arrived.news) WantCouncil();
  if (arrived.ticket != kNoTicket) ready_(arrived.ticket);
  result.route = arrived.route;
  if (arrived.route == Route::kDiffers) {
    result.reason = "tensor '" + slot.name + "' of plan " + entry.run.plan().name +
                    " cannot be reduced: " + difference;
  }
  return result;
}

PlanLane::Entry& PlanLane::EntryOf(int ticket) const { return *owners_.at(ticket); }

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

std::string PlanLane::MeetingRow(bool times) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  wants_council_.store(false, std::memory_order_release);
  std::vector<Statement> statements;
  for (auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    if (!entry->run.Settled()) statements.push_back(entry->run.Hold(joined_, times));
  }
  return ToRow(statements);
}

PlanLane::Outcome PlanLane::Apply(const std::vector<std::string>& rows) {
  Outcome outcome;
  std::lock_guard<std::shared_mutex> lock(mutex_);
  for (Decision& decision : Decide(rows)) {
    const auto found = plans_.find(decision.hash);
    Entry* entry = found == plans_.end() ? nullptr : found->second.get();
    Buckets recut;
    // All ranks have the plan when these two are decided, and so give out the same tickets.
    const int base = static_cast<int>(owners_.size());
    if (decision.kind == Decision::kRecut) recut = Recut(entry->run.plan(), decision.times);
    std::size_t buckets = recut.size();
    if (decision.kind == Decision::kCommit && !entry->run.Committed()) {
      buckets = entry->run.buckets().size();
    }
    if (base + static_cast<int>(buckets) > capacity_) {
      decision.kind = decision.kind == Decision::kRecut ? Decision::kWait : Decision::kReject;
      decision.reason = "all plans together have more than " + std::to_string(capacity_) + " buckets";
      buckets = 0;
    }
    owners_.resize(base + buckets, entry);
    const bool lingers = decision.kind == Decision::kWait && !decision.reason.empty() &&
                         decision.from_pass > kPatientPasses && lingering_.insert(decision.hash).second;
    if (lingers || decision.kind == Decision::kReject || decision.kind == Decision::kEnd) {
      const std::string name = entry == nullptr ? "" : " (" + entry->run.plan().name + ")";
      outcome.rejected.push_back("plan " + decision.hash + name + ": " + decision.reason);
    }
    if (entry == nullptr) continue;
    std::lock_guard<std::mutex> guard(entry->mutex);
    auto released = entry->run.Apply(decision, base, std::move(recut));
    for (int ticket : released.tickets) ready_(ticket);
    for (ArrivalPtr& arrival : released.negotiated) {
      outcome.negotiated.push_back(std::move(arrival));
    }
    for (ArrivalPtr& arrival : released.overlapping) {
      outcome.overlapping.push_back(std::move(arrival));
    }
  }
  if (!joined_) return outcome;
  for (auto& [hash, entry] : plans_) {  // also those that were rejected before
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
      if (anywhere || slot.reduction.gpu) return true;
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
