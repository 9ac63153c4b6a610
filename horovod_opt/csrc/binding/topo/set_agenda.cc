#include "horovod_opt/csrc/binding/topo/set_agenda.h"

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/base/say.h"
#include "horovod_opt/csrc/binding/topo/back_to_negotiation.h"
#include "horovod_opt/csrc/binding/topo/call.h"
#include "horovod_opt/csrc/binding/topo/planned_tensor.h"

namespace horovod_opt {

int SetAgenda::Wants() {
  int wants = plans_.WantsVote() ? want::kVote : 0;
  if (stall_.Due(plans_)) wants |= want::kStall;
  const int waits = split_.Look(plans_, [this] { return process_set_.tensor_queue.Names(); });
  if (waits & SplitWatch::kNegotiated) wants |= want::kLateNegotiated;
  if (waits & SplitWatch::kPlanned) wants |= want::kLatePlanned;
  if (waits & SplitWatch::kCall) wants |= want::kLateCall;
  return wants;
}

void SetAgenda::Meet(int wanted) {
  const bool both = (wanted & want::kLateNegotiated) && (wanted & want::kLatePlanned);
  if (both || (wanted & want::kLateCall)) EndSplitPlans();
  if (wanted & want::kVote) HoldVote();
  if (wanted & want::kStall) ReportStall();
}

void SetAgenda::HoldVote() {
  auto& controller = *process_set_.controller;
  const bool times = state_.settings.recut != 0 && controller.GetRank() == 0;
  auto outcome = plans_.Apply(GatherByRank(controller, plans_.VoteRow(times)));
  for (ArrivalPtr& arrival : outcome.negotiated) BackToNegotiation(horovod_, std::move(arrival));
  for (ArrivalPtr& arrival : outcome.overlapping) {
    TensorOf(arrival).entry.FinishWithCallback(horovod::common::DUPLICATE_NAME_ERROR);
  }
  for (const std::string& line : outcome.rejected) {
    SayOnce(controller, line + "; it stays negotiated");
  }
}

void SetAgenda::EndSplitPlans() {
  const auto rows = GatherByRank(*process_set_.controller, split_.Row());
  for (const auto& [plan, reason] : SplitWatch::Split(rows)) plans_.Reject(plan, reason);
}

void SetAgenda::ReportStall() {
  auto& controller = *process_set_.controller;
  const std::string text = StallWatch::Describe(GatherByRank(controller, StallWatch::Row(plans_)));
  if (text.empty()) return;
  SayOnce(controller, "planned tensors have waited for more than " + stall_.Limit() +
                          " seconds for ranks on which they are missing:" + text);
}

bool SetAgenda::Learn(const horovod::common::Response& response,
                      const std::function<bool(Collective)>& can_be) {
  const auto groups = CallsOf(response, process_set_.tensor_queue, process_set_.group_table);
  bool learned = false;
  for (const CallGroup& group : groups) {
    if (!can_be(group.calls[0].collective)) continue;
    const Plan plan = group.AsPlan();
    if (calls_.Recurs(plan.slots[0].key) && plans_.Learn(plan)) learned = true;
  }
  return learned;
}

}  // namespace horovod_opt
