#include "horovod_opt/csrc/binding/topo/agenda.h"

#include <utility>
#include <vector>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/base/say.h"
#include "horovod_opt/csrc/binding/topo/back_to_negotiation.h"
#include "horovod_opt/csrc/binding/topo/planned_tensor.h"

namespace horovod_opt {

using horovod::common::Request;
using horovod::common::TensorTableEntry;

namespace {

// What a rank wants of a round; bits, combined over ranks. Nothing: it is a heartbeat.
enum Want {
  kNegotiation = 1,
  kVote = 2,
  kFailure = 4,
  kStall = 8,
  kLateNegotiated = 16,  // both on any ranks: the same tensor may be meant
  kLatePlanned = 32,
  kLateCall = 64,  // one may be another call on each rank
  kJoined = 128,
};

}  // namespace

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

std::string Agenda::Meet(const std::string& failure) {
  auto& controller = *horovod_.global_controller;
  long long own = HasRequests() ? kNegotiation : 0;
  std::vector<JoinRequest> joins;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    joins.swap(joins_);
  }
  if (!joins.empty()) plans_.Join();
  if (plans_.Joined()) own |= kJoined;
  if (plans_.WantsVote()) own |= kVote;
  if (!failure.empty()) own |= kFailure;
  if (stall_.Due(plans_)) own |= kStall;
  const int waits = split_.Look(
      plans_, [this] { return horovod_.process_set_table.Get(0).tensor_queue.Names(); });
  if (waits & SplitWatch::kNegotiated) own |= kLateNegotiated;
  if (waits & SplitWatch::kPlanned) own |= kLatePlanned;
  if (waits & SplitWatch::kCall) own |= kLateCall;
  std::vector<long long> wanted{own};
  controller.CrossRankBitwiseOr(wanted, 1);
  anyone_joined_ = (wanted[0] & kJoined) != 0;
  auto& queue = horovod_.process_set_table.Get(0).tensor_queue;
  for (JoinRequest& join : joins) {
    const auto callback = join.entry.callback;
    const auto status = queue.AddToTensorQueue(join.entry, join.request);
    if (!status.ok()) callback(status);
  }
  if (wanted[0] & kNegotiation) {
    state_.path_counters.AddRound();
    rounds_.Wanted();
  }
  if (wanted[0] & kFailure) return Listed(GatherRows(controller, failure));
  const bool both = (wanted[0] & kLateNegotiated) && (wanted[0] & kLatePlanned);
  if (both || (wanted[0] & kLateCall)) EndSplitPlans();
  if (wanted[0] & kVote) HoldVote();
  if (wanted[0] & kStall) ReportStall();
  if (stall_.ShouldEnd(plans_)) horovod_.shut_down = true;
  return "";
}

void Agenda::HoldVote() {
  auto& controller = *horovod_.global_controller;
  const bool times = state_.settings.recut != 0 && controller.GetRank() == 0;
  auto outcome = plans_.Apply(GatherRows(controller, plans_.VoteRow(times)));
  state_.path_counters.AddVote();
  if (!rounds_.in_queue() && plans_.AnyCommitted(operations_.everything())) rounds_.EnterQueue();
  for (ArrivalPtr& arrival : outcome.negotiated) BackToNegotiation(horovod_, std::move(arrival));
  for (ArrivalPtr& arrival : outcome.overlapping) {
    TensorOf(arrival).entry.FinishWithCallback(horovod::common::DUPLICATE_NAME_ERROR);
  }
  for (const std::string& line : outcome.rejected) {
    SayOnce(horovod_, line + "; it stays negotiated");
  }
}

void Agenda::EndSplitPlans() {
  const auto rows = GatherRows(*horovod_.global_controller, split_.Row());
  for (const auto& [plan, reason] : SplitWatch::Split(rows)) plans_.Reject(plan, reason);
}

void Agenda::ReportStall() {
  const auto rows = GatherRows(*horovod_.global_controller, StallWatch::Row(plans_));
  const std::string text = StallWatch::Describe(rows);
  if (text.empty()) return;
  SayOnce(horovod_, "planned tensors have waited for more than " + stall_.Limit() +
                        " seconds for ranks on which they are missing:" + text);
}

}  // namespace horovod_opt
