#include "horovod_opt/csrc/core/plan/plan_table.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"

namespace horovod_opt {
namespace {

// The last graphs that are gone keep their keys.
constexpr std::size_t kOldGraphs = 64;

}  // namespace

PlanTable::PlanTable(int capacity, std::function<void(const Work&)> ready,
                     std::function<void()> meet)
    : ready_(std::move(ready)),
      meet_(std::move(meet)),
      owners_(capacity, nullptr),
      ids_(capacity),
      performed_(capacity) {
  if (capacity > ReadyQueue::kBuckets) {
    throw std::invalid_argument("a table of " + std::to_string(capacity) +
                                " buckets: the ready queue has IDs for " +
                                std::to_string(ReadyQueue::kBuckets));
  }
}

void PlanTable::UseSmallBucketPath(SmallBucketPath& small_buckets, std::int64_t memory) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  small_buckets_ = &small_buckets;
  ids_.UseMemory(memory);
}

void PlanTable::Add(Plan plan) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  if (Entry* const known = Find(plan.hash)) return Bind(*known, plan);
  Entry& entry = *plans_.emplace(plan.hash, std::make_unique<Entry>(plan, ranks_)).first->second;
  if (!disabled_.empty()) entry.run.Fail(disabled_);
  Bind(entry, plan);
}

void PlanTable::Bind(Entry& entry, const Plan& plan) {
  ++entry.graphs;
  for (std::size_t slot = 0; slot < plan.slots.size(); ++slot) {
    const Binding own{&entry, static_cast<int>(slot)};
    Entry& owner = *bindings_.emplace(plan.slots[slot].key, own).first->second.entry;
    if (&owner == &entry) continue;
    const std::string reason = "'" + plan.slots[slot].name + "' also belongs to plan ";
    End(owner, reason + plan.hash);
    End(entry, reason + owner.run.plan().hash);
  }
}

void PlanTable::End(Entry& entry, const std::string& reason) {
  std::lock_guard<std::mutex> guard(entry.mutex);
  entry.run.End(reason);
  WantVote();
}

void PlanTable::Remove(const Plan& plan) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  Entry* const entry = Find(plan.hash);
  if (entry == nullptr) return;
  --entry->graphs;
  std::vector<std::int64_t> keys;
  for (const Slot& slot : plan.slots) keys.push_back(slot.key);
  old_graphs_.emplace_back(entry, std::move(keys));
  if (old_graphs_.size() <= kOldGraphs) return;
  Unbind(old_graphs_.front().first, old_graphs_.front().second);
  old_graphs_.pop_front();
  if (entry->graphs == 0) WantVote();
}

void PlanTable::Unbind(const Entry* entry, const std::vector<std::int64_t>& keys) {
  for (std::int64_t key : keys) {
    const auto binding = bindings_.find(key);
    if (binding != bindings_.end() && binding->second.entry == entry) bindings_.erase(binding);
  }
}

bool PlanTable::Learn(const Plan& call) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  if (finishing_ || !disabled_.empty() || plans_.count(call.hash) > 0) return false;
  if (unlike_calls_.count(call.hash) > 0) return false;
  Entry& entry = *plans_.emplace(call.hash, std::make_unique<Entry>(call, ranks_)).first->second;
  entry.run.SkipWarmUp();
  Bind(entry, call);
  WantVote();
  return true;
}

PlanTable::Entry* PlanTable::Find(const std::string& hash) const {
  const auto known = plans_.find(hash);
  return known == plans_.end() ? nullptr : known->second.get();
}

PlanTable::Binding PlanTable::Find(std::int64_t key) const {
  const auto binding = bindings_.find(key);
  return binding == bindings_.end() ? Binding() : binding->second;
}

bool PlanTable::Knows(std::int64_t key) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  return bindings_.count(key) > 0;
}

void PlanTable::Reject(const std::string& hash, const std::string& reason) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  if (Entry* const known = Find(hash)) End(*known, reason);
}

void PlanTable::StepOver(const std::vector<std::int64_t>& keys, std::int64_t step) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const Entry* last = nullptr;
  for (std::int64_t key : keys) {
    Entry* const entry = Find(key).entry;
    if (entry == nullptr || entry == last) continue;
    last = entry;
    std::lock_guard<std::mutex> guard(entry->mutex);
    if (entry->run.StepOver(step)) WantVote();
  }
}

void PlanTable::LeaveOut(std::int64_t key, const std::string& reason) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto [entry, slot] = Find(key);
  if (entry == nullptr) return;
  std::lock_guard<std::mutex> guard(entry->mutex);
  if (entry->run.LeaveOut(slot, reason)) WantVote();
}

void PlanTable::Disable(const std::string& reason) {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  disabled_ = reason;
}

Route PlanTable::Arrive(std::int64_t key, ArrivalPtr& arrival) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  if (finishing_) return Route::kNegotiated;
  const auto [known, number] = Find(key);
  if (known == nullptr) return Route::kNegotiated;
  Entry& entry = *known;
  std::string difference = arrival->obstacle;
  PlanRun::ArrivalResult result;
  {
    std::lock_guard<std::mutex> guard(entry.mutex);
    const std::string shape = entry.run.See(number, arrival->reduction.device, arrival->shape);
    const Slot& slot = entry.run.plan().slots[number];
    if (difference.empty()) difference = Difference(slot, arrival->bytes, arrival->reduction);
    if (difference.empty()) difference = shape;
    result = entry.run.Arrive(number, difference, arrival, Clock::now());
  }
  if (result.news) WantVote();
  if (result.bucket_id == kNoBucket) return result.route;
  Work own_work;
  const auto turn = Announce(entry, result.bucket_id, &own_work);
  lock.unlock();  // its callbacks may send other tensors
  if (!own_work.IsEmpty()) small_buckets_->Perform(std::move(own_work), false);
  if (turn) SpinFor(*turn);
  return result.route;
}

void PlanTable::Refuse(std::int64_t key) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto [entry, slot] = Find(key);
  if (entry == nullptr) return;
  std::lock_guard<std::mutex> guard(entry->mutex);
  entry->run.Refuse(slot);
}

void PlanTable::SpinFor(const Turn& turn) {
  const bool all_there = small_buckets_->Spin(turn);
  Work work;
  if (all_there) work = TakeIfUntaken(turn);
  if (work.IsEmpty()) return small_buckets_->EndSpin(turn, !all_there);
  small_buckets_->Perform(std::move(work), true);
}

Work PlanTable::TakeIfUntaken(const Turn& turn) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  Work work;
  Entry* const entry = owners_[turn.bucket_id];
  if (entry == nullptr || ids_.TurnOf(turn.bucket_id, turn.count).owner != turn.owner) return work;
  std::unique_lock<std::mutex> guard(entry->mutex);
  if (!entry->run.filling().IsComplete(turn.bucket_id, turn.count)) return work;
  ++performed_[turn.bucket_id];
  return TakeFrom(*entry, turn.bucket_id, std::move(guard));
}

std::optional<Turn> PlanTable::Announce(Entry& entry, int bucket_id, Work* own_work) {
  Work& work = entry.run.CompleteBucket(bucket_id);
  work.turn = ids_.TurnOf(bucket_id, work.turn.count);
  if (!ids_.HasPlace(bucket_id)) {
    ready_(work);
    return {};
  }
  const Turn turn = work.turn;
  const auto readiness = small_buckets_->Announce(work, own_work != nullptr);
  if (readiness == SmallBucketPath::Readiness::kSoon) return turn;
  if (readiness == SmallBucketPath::Readiness::kOthers) return {};
  std::vector<int> completed;
  const bool take = own_work != nullptr && small_buckets_->MayPerform(work);
  if (take) {
    std::lock_guard<std::mutex> guard(entry.mutex);
    *own_work = TakeFrom(entry, bucket_id, completed);
    ++performed_[bucket_id];
  }
  small_buckets_->Append(bucket_id, take);
  for (int next : completed) Announce(entry, next);
  return {};
}

const Work& PlanTable::Look(int bucket_id) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  return EntryOf(bucket_id).run.CompleteBucket(bucket_id);
}

std::vector<ArrivalPtr> PlanTable::GiveBack(int bucket_id) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  Entry& entry = EntryOf(bucket_id);
  std::lock_guard<std::mutex> guard(entry.mutex);
  return entry.run.GiveBack(bucket_id);
}

void PlanTable::HandedBack(int bucket_id) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  Entry& entry = EntryOf(bucket_id);
  std::lock_guard<std::mutex> guard(entry.mutex);
  entry.run.HandedBack(bucket_id);
}

Work PlanTable::TakeFrom(Entry& entry, int bucket_id, std::vector<int>& completed) {
  Work work = entry.run.Take(bucket_id, completed);
  if (entry.run.HeldStepMayBegin()) WantVote();
  return work;
}

Work PlanTable::TakeFrom(Entry& entry, int bucket_id, std::unique_lock<std::mutex> guard) {
  std::vector<int> completed;
  Work work = TakeFrom(entry, bucket_id, completed);
  guard.unlock();
  if (finishing_) return work;
  for (int next : completed) Announce(entry, next);
  return work;
}

PlanTable::Entry& PlanTable::EntryOf(int bucket_id) const {
  Entry* const owner = owners_.at(bucket_id);
  if (owner == nullptr) throw std::logic_error("the ready queue has a bucket of no plan");
  return *owner;
}

Work PlanTable::Take(int bucket_id) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  Entry* const owner = owners_.at(bucket_id);
  // A thread that spins takes the bucket under the same mutex, while its entry is in the queue.
  std::unique_lock<std::mutex> guard;
  if (owner != nullptr) guard = std::unique_lock<std::mutex>(owner->mutex);
  if (performed_[bucket_id] > 0) {
    --performed_[bucket_id];
    return {};
  }
  return TakeFrom(EntryOf(bucket_id), bucket_id, std::move(guard));
}

bool PlanTable::MarkReduced(const Work& work) {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  Entry& entry = EntryOf(work.bucket->id);
  std::lock_guard<std::mutex> guard(entry.mutex);
  const auto progress = entry.run.MarkReduced(work);
  if (progress.news) WantVote();
  return progress.iteration_over && !work.bucket->plan->is_call;
}

void PlanTable::MarkReduced(const Work& work, Clock::time_point start, PathCounters& counters) {
  const auto now = Clock::now();
  counters.AddBucket(work.Bytes(), now - start, now - work.last_arrival);
  if (MarkReduced(work)) counters.AddIteration();
}

void PlanTable::Finish() {
  std::lock_guard<std::shared_mutex> lock(mutex_);
  finishing_ = true;
}

std::string PlanTable::CompletionRow() const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<Vote> votes;
  for (const auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    Vote vote;
    vote.hash = hash;
    vote.completions = entry->run.filling().Completions();
    votes.push_back(std::move(vote));
  }
  return ToRow(votes);
}

std::vector<int> PlanTable::UntakenBuckets(const TextByRank& rows) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  std::vector<int> bucket_ids;
  for (const auto& [hash, completed] : CompletionsEverywhere(rows)) {
    const Entry& entry = *plans_.at(hash);
    std::lock_guard<std::mutex> guard(entry.mutex);
    for (int bucket_id : entry.run.filling().Untaken(completed)) bucket_ids.push_back(bucket_id);
  }
  return bucket_ids;
}

bool PlanTable::AnyUntaken(const std::vector<int>& bucket_ids) const {
  std::shared_lock<std::shared_mutex> lock(mutex_);
  return std::any_of(bucket_ids.begin(), bucket_ids.end(), [&](int bucket_id) {
    const Entry& entry = EntryOf(bucket_id);
    std::lock_guard<std::mutex> guard(entry.mutex);
    return entry.run.filling().Holds(bucket_id);
  });
}

std::vector<ArrivalPtr> PlanTable::Close() {
  Finish();
  std::lock_guard<std::shared_mutex> lock(mutex_);
  std::vector<ArrivalPtr> arrivals;
  for (auto& [hash, entry] : plans_) {
    std::lock_guard<std::mutex> guard(entry->mutex);
    for (ArrivalPtr& arrival : entry->run.Close()) arrivals.push_back(std::move(arrival));
  }
  return arrivals;
}

}  // namespace horovod_opt
