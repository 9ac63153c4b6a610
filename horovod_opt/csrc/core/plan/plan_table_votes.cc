// Votes of PlanTable: it says what this rank has, and carries out what all have decided.
#include <algorithm>
#include <iterator>
#include <utility>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/plan/rebuild_buckets.h"

namespace horovod_opt {
namespace {

// A plan rests only if it was not used for so long: not plans that are used in turn.
constexpr std::int64_t kIdleMs = 1000;

// So many calls that ranks do not share are remembered; then they are voted on once more.
constexpr std::size_t kUnlikeCalls = 4096;

}  // namespace

void PlanTable::Join() {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  joined_ = true;
  WantVote();
}

bool PlanTable::HasJoined() const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  return joined_;
}

void PlanTable::Restart() {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  joined_ = false;
  for (auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    entry->run.Restart();
  }
}

std::string PlanTable::VoteRow(bool first, bool times, Clock::time_point now, Stall stall) {
  std::vector<Vote> votes;
  std::unique_lock<std::shared_mutex> lock(mutex_);
  wants_vote_.store(false, std::memory_order_release);
  std::set<const Entry*> late;
  for (auto& [hash, entry] : plans_) {
    if (stall.patience <= stall.patience.zero()) break;
    std::lock_guard<std::mutex> guard(entry->mutex);
    if (!entry->run.filling().LateBuckets(now - stall.patience).empty()) late.insert(entry.get());
  }
  for (auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    // A rank that waits for nothing else may be in the middle of the step, and slow.
    const bool waits = stall.waits_elsewhere || late.size() > late.count(entry.get());
    votes.push_back(
        entry->run.CastVote(joined_, times, now, waits ? stall.patience : stall.patience.zero()));
    votes.back().bound = entry->graphs > 0;
    if (!first) votes.back().idle_ms = 0;
  }
  lock.unlock();
  return ToRow(votes);
}

std::vector<int> PlanTable::Allocate(const Plan& plan, const Buckets& buckets) {
  std::vector<std::int64_t> place_bytes;
  for (const std::vector<int>& bucket : buckets) {
    std::int64_t bytes = 0;
    bool is_small = small_buckets_ != nullptr;
    for (int slot : bucket) {
      const Slot& member = plan.slots[slot];
      bytes += member.bytes;
      is_small =
          is_small && member.collective == Collective::kAllreduce && !member.reduction.OnGpu();
    }
    place_bytes.push_back(is_small ? small_buckets_->PlaceBytes(bytes) : 0);
  }
  return ids_.Allocate(place_bytes);
}

// Takes bucket IDs from those plans that were not used for the longest time until `buckets` are
// free. A call is forgotten: it may never come again.
void PlanTable::Rest(std::vector<Decision>& decisions, std::size_t buckets, Outcome& outcome) {
  std::vector<Decision*> candidates;
  for (Decision& decision : decisions) {
    if (decision.kind != Decision::kWait || !decision.may_rest) continue;
    if (decision.idle_ms >= kIdleMs) candidates.push_back(&decision);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Decision* a, const Decision* b) { return a->idle_ms > b->idle_ms; });
  for (Decision* decision : candidates) {
    if (ids_.available() >= static_cast<int>(buckets)) return;
    Entry& entry = *plans_.at(decision->hash);
    if (entry.run.plan().is_call) {
      ForgetCall(entry, *decision, outcome);
    } else {
      decision->kind = Decision::kRest;
      decision->reason =
          "its place was given to other plans; active again after its next iteration";
      CarryOut(&entry, *decision, outcome);
    }
  }
}

void PlanTable::ForgetCall(Entry& entry, Decision& decision, Outcome& outcome) {
  decision.kind = Decision::kForget;
  std::vector<std::int64_t> keys;
  for (const Slot& slot : entry.run.plan().slots) keys.push_back(slot.key);
  Unbind(&entry, keys);
  entry.graphs = 0;
  Forget(decision, outcome);
}

// Of a plan that no rank has a graph of any more.
void PlanTable::Forget(const Decision& decision, Outcome& outcome) {
  const auto known = plans_.find(decision.hash);
  if (known == plans_.end()) return;
  Entry* const entry = known->second.get();
  CarryOut(entry, decision, outcome);
  reported_plans_.erase(decision.hash);
  if (entry->graphs > 0) return;
  const auto is_its = [&](const auto& graph) {
    if (graph.first == entry) Unbind(entry, graph.second);
    return graph.first == entry;
  };
  old_graphs_.erase(std::remove_if(old_graphs_.begin(), old_graphs_.end(), is_its),
                    old_graphs_.end());
  plans_.erase(known);
}

void PlanTable::AddRejection(const Entry* entry, const Decision& decision, bool once,
                             Outcome& outcome) {
  if (once && !reported_plans_.insert(decision.hash).second) return;
  const std::string name = entry == nullptr ? "" : " (" + entry->run.plan().name + ")";
  outcome.rejections.push_back("plan " + decision.hash + name + ": " + decision.reason);
}

void PlanTable::CarryOut(Entry* entry, const Decision& decision, Outcome& outcome,
                         const std::vector<int>& bucket_ids, Buckets buckets) {
  if (entry == nullptr) return;
  std::lock_guard<std::mutex> guard(entry->mutex);
  for (int bucket_id : bucket_ids) owners_[bucket_id] = entry;
  Collect(*entry, entry->run.Apply(decision, bucket_ids, std::move(buckets)), outcome);
}

void PlanTable::Collect(Entry& entry, PlanRun::Effects effects, Outcome& outcome) {
  for (int bucket_id : effects.free_ids) {
    owners_[bucket_id] = nullptr;
    ids_.Free(bucket_id);
  }
  debts_.insert(debts_.end(), effects.debts.begin(), effects.debts.end());
  for (int bucket_id : effects.bucket_ids) Announce(entry, bucket_id);
  if (!effects.to_negotiate.empty()) outcome.come_from.insert(entry.run.plan().hash);
  const auto move_to = [](std::vector<ArrivalPtr>& from, std::vector<ArrivalPtr>& to) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
  };
  move_to(effects.to_negotiate, outcome.to_negotiate);
  move_to(effects.to_refuse, outcome.to_refuse);
  if (effects.news) WantVote();
}

// Every rank of the group has taken back, in an earlier vote, what these buckets held.
void PlanTable::PayDebts() {
  for (int bucket_id : std::exchange(debts_, {})) {
    Entry& entry = *owners_[bucket_id];
    std::lock_guard<std::mutex> guard(entry.mutex);
    if (entry.run.Owe(bucket_id)) {
      Announce(entry, bucket_id);
    } else {
      debts_.push_back(bucket_id);
      WantVote();
    }
  }
}

bool PlanTable::AnyBecomesActive(const std::vector<Decision>& decisions) {
  return std::any_of(decisions.begin(), decisions.end(),
                     [](const Decision& decision) { return decision.kind == Decision::kCommit; });
}

PlanTable::Outcome PlanTable::Apply(std::vector<Decision> decisions, const HandBack& hand_back) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  Outcome outcome = CarryOut(std::move(decisions));
  while (hand_back && !outcome.to_negotiate.empty()) {
    const std::set<std::string> come_from = std::exchange(outcome.come_from, {});
    ForEach(come_from, [](Entry& entry) { entry.run.DeferStill(); });
    lock.unlock();
    for (ArrivalPtr& arrival : std::exchange(outcome.to_negotiate, {})) {
      hand_back(std::move(arrival));
    }
    lock.lock();
    ForEach(come_from, [&](Entry& entry) { Collect(entry, entry.run.GoOn(), outcome); });
  }
  return outcome;
}

// Those that are not forgotten.
void PlanTable::ForEach(const std::set<std::string>& hashes,
                        const std::function<void(Entry&)>& act) {
  for (const std::string& hash : hashes) {
    Entry* const entry = Find(hash);
    if (entry == nullptr) continue;
    std::lock_guard<std::mutex> guard(entry->mutex);
    act(*entry);
  }
}

// All ranks make the same decisions in the same order, so they give out the same bucket IDs: first
// those that free some, then those that need some, which may let others rest.
PlanTable::Outcome PlanTable::CarryOut(std::vector<Decision> decisions) {
  Outcome outcome;
  PayDebts();
  for (Decision& decision : decisions) {
    if (disabled_.empty() || decision.kind != Decision::kCommit) continue;
    decision.kind = IsCallHash(decision.hash) ? Decision::kForget : Decision::kEnd;
    decision.reason = disabled_;
  }
  const auto needs_ids = [](const Decision& decision) {
    return decision.kind == Decision::kCommit || decision.kind == Decision::kRebuild;
  };
  for (Decision& decision : decisions) {
    if (decision.kind == Decision::kWait || needs_ids(decision)) continue;
    Entry* const entry = Find(decision.hash);
    if (decision.kind == Decision::kForget) {
      if (entry != nullptr && entry->run.plan().is_call) {
        if (unlike_calls_.size() >= kUnlikeCalls) unlike_calls_.clear();
        if (!decision.reason.empty()) unlike_calls_.insert(decision.hash);
        ForgetCall(*entry, decision, outcome);
      } else {
        Forget(decision, outcome);
      }
      continue;
    }
    const bool has_ended = entry != nullptr && entry->run.state() == PlanState::kEnded;
    if (decision.kind == Decision::kEnd && !has_ended)
      AddRejection(entry, decision, false, outcome);
    CarryOut(entry, decision, outcome);
    if (decision.kind == Decision::kAbandon && decision.fails_step && entry != nullptr)
      outcome.failures.push_back(entry->run.abandoned());
  }
  for (Decision& decision : decisions) {
    if (!needs_ids(decision)) continue;
    Entry* const entry = Find(decision.hash);  // all ranks have the plan
    const Plan& plan = entry->run.plan();
    Buckets buckets;
    if (decision.kind == Decision::kRebuild) {
      buckets = RebuildBuckets(plan, decision.limits, decision.times, entry->run.left_out());
    } else if (!entry->run.IsCommitted()) {
      buckets = SplitByDevices(Without(entry->run.buckets(), decision.left_out), decision.devices);
    }
    Rest(decisions, buckets.size(), outcome);
    const std::vector<int> bucket_ids = Allocate(plan, buckets);
    if (bucket_ids.size() < buckets.size()) {
      decision.kind = Decision::kWait;
      decision.reason = "plans in use have " + std::to_string(ids_.capacity() - ids_.available()) +
                        " of " + std::to_string(ids_.capacity()) + " buckets, and this one needs " +
                        std::to_string(buckets.size());
      if (!plan.is_call) AddRejection(entry, decision, true, outcome);
      continue;
    }
    CarryOut(entry, decision, outcome, bucket_ids, std::move(buckets));
  }
  for (const Decision& decision : decisions) {
    if (decision.kind != Decision::kWait) continue;
    Entry* const entry = Find(decision.hash);
    const bool is_plan = entry == nullptr || !entry->run.plan().is_call;
    if (is_plan && !decision.reason.empty() && decision.from_iteration > kPatientIterations)
      AddRejection(entry, decision, true, outcome);
    CarryOut(entry, decision, outcome);
  }
  if (!joined_) return outcome;
  for (auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    for (int bucket_id : entry->run.SupplyZeros()) Announce(*entry, bucket_id);
  }
  return outcome;
}

bool PlanTable::AnyCommitted(bool anywhere) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  for (const auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    if (!entry->run.IsCommitted()) continue;
    for (const Slot& slot : entry->run.plan().slots) {
      if (anywhere || slot.reduction.OnGpu()) return true;
    }
  }
  return false;
}

}  // namespace horovod_opt
