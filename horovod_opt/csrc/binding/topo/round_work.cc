#include "horovod_opt/csrc/binding/topo/round_work.h"

#include <algorithm>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"

namespace horovod_opt {

using horovod::common::Request;
using horovod::common::TensorTableEntry;

bool Agenda::Join(TensorTableEntry& entry, Request& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_) joins_.push_back({std::move(entry), request});
  return !closed_;
}

void Agenda::Close() {
  std::vector<JoinRequest> joins;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    joins.swap(joins_);
  }
  for (JoinRequest& join : joins) join.entry.FinishWithCallback(horovod::common::SHUT_DOWN_ERROR);
}

bool Agenda::HasRequests() const {
  if (horovod_.shut_down || plans_.WantsVote()) return true;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!joins_.empty()) return true;
  }
  auto& table = horovod_.process_set_table;
  for (auto id : table.Ids()) {
    const auto& process_set = table.Get(id);
    if (!process_set.initialization_done || !process_set.tensor_queue.IsEmpty()) return true;
  }
  return false;
}

void Agenda::EnterQueue() {
  if (!rounds_.in_queue() && plans_.AnyCommitted(operations_.everything())) rounds_.EnterQueue();
}

std::string Agenda::Meet(const std::vector<SetAgenda*>& sets, const std::string& failure) {
  auto& controller = *horovod_.global_controller;
  long long own = HasRequests() ? want::kNegotiation : 0;
  std::vector<JoinRequest> joins;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    joins.swap(joins_);
  }
  if (!joins.empty()) plans_.Join();
  if (plans_.HasJoined()) own |= want::kJoined;
  if (!failure.empty()) own |= want::kFailure;
  for (SetAgenda* set : sets) own |= set->Wants();
  if (WaitsLong(sets)) own |= want::kContradiction;
  if (own & want::kVote) own |= want::kNegotiation;
  std::vector<long long> wanted{own};
  controller.CrossRankBitwiseOr(wanted, 1);
  anyone_joined_ = (wanted[0] & want::kJoined) != 0;
  auto& queue = horovod_.process_set_table.Get(0).tensor_queue;
  for (JoinRequest& join : joins) {
    const auto callback = join.entry.callback;
    const auto status = queue.AddToTensorQueue(join.entry, join.request);
    if (!status.ok()) callback(status);
  }
  if (wanted[0] & want::kNegotiation) {
    state_.path_counters.AddRound();
    rounds_.Wanted();
  }
  if (wanted[0] & want::kFailure) return Listed(GatherByRank(controller, failure));
  if (wanted[0] & want::kVote) state_.path_counters.AddVote();
  for (SetAgenda* set : sets) set->Meet(static_cast<int>(wanted[0]));
  if (wanted[0] & want::kContradiction) EndContradictions(sets);
  if (wanted[0] & want::kVote) EnterQueue();
  if (std::any_of(sets.begin(), sets.end(), [](SetAgenda* set) { return set->ShouldEnd(); })) {
    horovod_.shut_down = true;
  }
  return "";
}

bool Agenda::WaitsLong(const std::vector<SetAgenda*>& sets) const {
  const auto now = PlanTable::Clock::now();
  const auto patience = sets[0]->patience();
  if (patience <= patience.zero() || now - compared_ < patience) return false;
  return std::any_of(sets.begin(), sets.end(),
                     [&](const SetAgenda* set) { return set->AnyWaitsSince(now - patience); });
}

// Ranks that contradict each other have not begun to wait at the same time: half of the patience
// of the first is long enough for the others.
void Agenda::EndContradictions(const std::vector<SetAgenda*>& sets) {
  compared_ = PlanTable::Clock::now();
  std::string row;
  for (const SetAgenda* set : sets) row += ToRow(set->Waiting(compared_ - sets[0]->patience() / 2));
  auto& table = horovod_.process_set_table;
  const auto members = [&](int id) {
    return table.Contains(id) ? table.Get(id).registered_global_ranks : std::vector<int>{};
  };
  auto& controller = *horovod_.global_controller;
  for (const Contradiction& one : Contradictions(GatherByRank(controller, row), members)) {
    objections_[{members(one.process_set), one.name}] = one.error;
    for (SetAgenda* set : sets) {
      if (set->id() == one.process_set) set->GiveUp(one);
    }
  }
}

std::string Agenda::Objection(const std::vector<int>& ranks, const std::string& name) const {
  const auto found = objections_.find({ranks, name});
  return found == objections_.end() ? "" : found->second;
}

}  // namespace horovod_opt
