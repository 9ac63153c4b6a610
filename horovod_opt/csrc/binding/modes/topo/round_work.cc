#include "horovod_opt/csrc/binding/modes/topo/round_work.h"

#include <algorithm>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"

namespace horovod_opt {

using horovod::common::Request;
using horovod::common::TensorTableEntry;

bool RoundWork::Join(TensorTableEntry& entry, Request& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!closed_) joins_.push_back({std::move(entry), request});
  return !closed_;
}

void RoundWork::Close() {
  std::vector<JoinRequest> joins;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    joins.swap(joins_);
  }
  for (JoinRequest& join : joins) join.entry.FinishWithCallback(horovod::common::SHUT_DOWN_ERROR);
}

bool RoundWork::HasRequests() const {
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

void RoundWork::EnterQueue() {
  if (!rounds_.in_queue() && plans_.AnyCommitted(horovod_ops_.performs_all())) rounds_.EnterQueue();
}

std::string RoundWork::Meet(const std::vector<SetRoundWork*>& sets, const std::string& failure) {
  auto& controller = *horovod_.global_controller;
  long long own_wants = HasRequests() ? want::kNegotiation : 0;
  std::vector<JoinRequest> joins;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    joins.swap(joins_);
  }
  if (!joins.empty()) {
    sets[0]->LeaveLanes();
    plans_.Join();
  }
  if (plans_.HasJoined()) own_wants |= want::kJoined;
  if (!failure.empty()) own_wants |= want::kFailure;
  for (SetRoundWork* set : sets) own_wants |= set->Wants();
  if (WaitsLong(sets)) own_wants |= want::kContradiction;
  if (own_wants & want::kVote) own_wants |= want::kNegotiation;
  std::vector<long long> wants{own_wants};
  controller.CrossRankBitwiseOr(wants, 1);
  any_rank_joined_ = (wants[0] & want::kJoined) != 0;
  auto& queue = horovod_.process_set_table.Get(0).tensor_queue;
  for (JoinRequest& join : joins) {
    const auto callback = join.entry.callback;
    const auto status = queue.AddToTensorQueue(join.entry, join.request);
    if (!status.ok()) callback(status);
  }
  if (wants[0] & want::kNegotiation) {
    state_.path_counters.AddRound();
    rounds_.ExpectMore();
  }
  if (wants[0] & want::kFailure) return ListRows(GatherByRank(controller, failure));
  if (wants[0] & want::kVote) state_.path_counters.AddVote();
  const auto stall = (wants[0] & want::kStall) ? StallOf(sets) : PlanTable::Stall{};
  for (SetRoundWork* set : sets) set->Meet(static_cast<int>(wants[0]), stall);
  if (wants[0] & want::kContradiction) EndContradictions(sets);
  if (wants[0] & want::kVote) EnterQueue();
  if (std::any_of(sets.begin(), sets.end(), [](SetRoundWork* set) { return set->ShouldEnd(); })) {
    horovod_.shut_down = true;
  }
  return "";
}

// Ranks that wait for each other have not begun at the same time: half of the patience of the first
// is long enough for the others.
PlanTable::Stall RoundWork::StallOf(const std::vector<SetRoundWork*>& sets) {
  PlanTable::Stall stall{sets[0]->patience() / 2, false};
  const auto since = PlanTable::Clock::now() - stall.patience;
  for (const SetRoundWork* set : sets) {
    if (set->AnyNegotiatedSince(since, true)) stall.waits_elsewhere = true;
  }
  return stall;
}

bool RoundWork::WaitsLong(const std::vector<SetRoundWork*>& sets) const {
  const auto now = PlanTable::Clock::now();
  const auto patience = sets[0]->patience();
  if (patience <= patience.zero() || now - last_comparison_ < patience) return false;
  return std::any_of(sets.begin(), sets.end(),
                     [&](const SetRoundWork* set) { return set->AnyWaitsSince(now - patience); });
}

void RoundWork::EndContradictions(const std::vector<SetRoundWork*>& sets) {
  last_comparison_ = PlanTable::Clock::now();
  std::string row;
  for (const SetRoundWork* set : sets)
    row += ToRow(set->Waiting(last_comparison_ - sets[0]->patience() / 2));
  auto& table = horovod_.process_set_table;
  const auto members = [&](int id) {
    return table.Contains(id) ? table.Get(id).registered_global_ranks : std::vector<int>{};
  };
  auto& controller = *horovod_.global_controller;
  for (const Contradiction& contradiction :
       Contradictions(GatherByRank(controller, row), members)) {
    objections_[{members(contradiction.process_set), contradiction.name}] = contradiction.error;
    for (SetRoundWork* set : sets) {
      if (set->id() == contradiction.process_set) set->GiveUp(contradiction);
    }
  }
}

std::string RoundWork::Objection(const std::vector<int>& ranks, const std::string& name) const {
  const auto objection = objections_.find({ranks, name});
  return objection == objections_.end() ? "" : objection->second;
}

}  // namespace horovod_opt
