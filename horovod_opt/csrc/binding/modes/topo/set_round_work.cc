#include "horovod_opt/csrc/binding/modes/topo/set_round_work.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/base/say.h"
#include "horovod_opt/csrc/binding/modes/topo/call.h"
#include "horovod_opt/csrc/binding/modes/topo/objection.h"
#include "horovod_opt/csrc/binding/modes/topo/unnamed_call.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"
#include "horovod_opt/csrc/core/agreement/stall_report.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::Request;
using horovod::common::TensorTableEntry;

bool IsInteger(DataType dtype) {
  switch (dtype) {
    case DataType::HOROVOD_UINT8:
    case DataType::HOROVOD_INT8:
    case DataType::HOROVOD_UINT16:
    case DataType::HOROVOD_INT16:
    case DataType::HOROVOD_INT32:
    case DataType::HOROVOD_INT64:
      return true;
    default:
      return false;
  }
}

WaitingTensor::Kind KindOf(Request::RequestType type) {
  switch (type) {
    case Request::ALLREDUCE:
    case Request::ADASUM:
      return WaitingTensor::kAllreduce;
    case Request::ALLGATHER:
      return WaitingTensor::kAllgather;
    default:
      return WaitingTensor::kOther;
  }
}

// `shape`: of an allgather that of a row.
WaitingTensor Waiting(int process_set, const std::string& name, Request::RequestType type,
                      DataType dtype, const std::vector<std::int64_t>& shape, bool long_ago) {
  const bool gathers = type == Request::ALLGATHER;
  WaitingTensor tensor;
  tensor.process_set = process_set;
  tensor.name = name;
  tensor.kind = KindOf(type);
  tensor.dtype = dtype;
  tensor.integer = IsInteger(dtype);
  tensor.has_rows = gathers || !shape.empty();
  tensor.row.assign(shape.begin() + (gathers || shape.empty() ? 0 : 1), shape.end());
  tensor.long_ago = long_ago;
  std::ostringstream text;
  text << Request::RequestType_Name(type) << " of " << DataType_Name(dtype) << " [";
  if (gathers) text << "any";
  const char* separator = gathers ? ", " : "";
  for (std::int64_t dimension : shape) {
    text << separator << dimension;
    separator = ", ";
  }
  text << ']';
  tensor.text = text.str();
  return tensor;
}

}  // namespace

int SetRoundWork::Wants() {
  int wants = plans_.WantsVote() ? want::kVote : 0;
  if (stall_.Due(plans_)) wants |= want::kStall | want::kVote;
  const int waits = mismatch_.Look(
      plans_,
      [this](PlanTable::Clock::time_point since) {
        std::set<std::string> names;
        process_set_.tensor_queue.ForEachEntry([&](const TensorTableEntry& entry) {
          if (entry.opt_since <= since) names.insert(entry.tensor_name);
        });
        return names;
      },
      unnamed_);
  if (waits & MismatchWatch::kNegotiated) wants |= want::kLateNegotiated;
  if (waits & MismatchWatch::kPlanned) wants |= want::kLatePlanned;
  if (waits & MismatchWatch::kCall) wants |= want::kLateCall;
  return wants;
}

void SetRoundWork::Meet(int wants, PlanTable::Stall stall) {
  const bool both = (wants & want::kLateNegotiated) && (wants & want::kLatePlanned);
  if (both || (wants & want::kLateCall)) RejectMismatches();
  if (wants & want::kVote) HoldVote(stall);
  if (wants & want::kStall) ReportStall();
}

void SetRoundWork::HoldVote(PlanTable::Stall stall) {
  auto& controller = *process_set_.controller;
  const bool first = controller.GetRank() == 0;
  const std::string row =
      plans_.VoteRow(first, first && state_.settings.recut != 0, PlanTable::Clock::now(), stall);
  auto decisions = plans_.DecideBy(GatherByRank(controller, row));
  if (before_plan_ && PlanTable::AnyBecomesActive(decisions))
    std::exchange(before_plan_, nullptr)();
  auto outcome = plans_.Apply(std::move(decisions), [&](ArrivalPtr arrival) {
    BackToNegotiation(horovod_, std::move(arrival));
  });
  for (ArrivalPtr& arrival : outcome.to_refuse) {
    TensorOf(arrival).entry.FinishWithCallback(horovod::common::DUPLICATE_NAME_ERROR);
  }
  for (const std::string& line : outcome.rejections) {
    if (!IsOfLanes(line)) SayOnce(controller, line + "; it stays negotiated");
  }
  for (const std::string& line : outcome.failures) SayOnce(controller, line);
}

void SetRoundWork::RejectMismatches() {
  const auto rows = GatherByRank(*process_set_.controller, mismatch_.Row(unnamed_));
  const auto mismatches = MismatchWatch::Mismatches(rows);
  for (const auto& [plan, reason] : mismatches) plans_.Reject(plan, reason);
  const std::string disorder = MismatchWatch::Disorder(rows);
  // From here on the ranks may have made unequal numbers of calls of one signature.
  if (!mismatches.empty() || !disorder.empty()) unnamed_.DropAll();
  // The next round, for which that asks, tells all ranks of the job.
  if (!disorder.empty())
    disorder_ = "their calls without a name, in another order (" + disorder + ")";
}

void SetRoundWork::ReportStall() {
  auto& controller = *process_set_.controller;
  const auto now = PlanTable::Clock::now();
  const std::string row = StallRow(plans_.LateBuckets(now), now);
  const auto limit = std::chrono::duration_cast<std::chrono::seconds>(stall_.Warning());
  const std::string text = DescribeStall(GatherByRank(controller, row), limit);
  if (text.empty()) return;
  SayOnce(controller,
          "planned tensors have waited for more than " + stall_.Limit() + " seconds:" + text);
}

bool SetRoundWork::AnyWaitsSince(PlanTable::Clock::time_point since) const {
  return !plans_.LateBuckets(since).empty() || AnyNegotiatedSince(since, false);
}

bool SetRoundWork::AnyNegotiatedSince(PlanTable::Clock::time_point since, bool barriers) const {
  bool any = false;
  process_set_.tensor_queue.ForEachEntry([&](const TensorTableEntry& entry) {
    const auto type = entry.opt_request_type;
    const bool counts = type != Request::JOIN && (barriers || type != Request::BARRIER);
    any = any || (counts && entry.opt_since <= since);
  });
  return any;
}

std::vector<WaitingTensor> SetRoundWork::Waiting(PlanTable::Clock::time_point since) const {
  std::vector<WaitingTensor> waiting;
  process_set_.tensor_queue.ForEachEntry([&](const TensorTableEntry& entry) {
    const auto type = entry.opt_request_type;
    if (type == Request::JOIN || type == Request::BARRIER) return;
    auto shape = entry.tensor->shape().to_vector();
    if (type == Request::ALLGATHER && !shape.empty()) shape.erase(shape.begin());
    waiting.push_back(horovod_opt::Waiting(id_, entry.tensor_name, type, entry.tensor->dtype(),
                                           shape, entry.opt_since <= since));
  });
  for (const PlanTable::PendingTensor& planned : plans_.PendingTensors()) {
    waiting.push_back(horovod_opt::Waiting(id_, planned.name, RequestTypeOf(planned.collective),
                                           static_cast<DataType>(planned.reduction.dtype),
                                           planned.shape, planned.since <= since));
  }
  return waiting;
}

void SetRoundWork::GiveUp(const Contradiction& contradiction) {
  bool calls_tensor = false;  // in the meantime, if the rank was to object
  for (const PlanTable::PendingTensor& planned : plans_.PendingTensors()) {
    if (planned.name != contradiction.name) continue;
    plans_.Reject(planned.plan, "'" + planned.name + "' contradicts what other ranks wait for");
    calls_tensor = true;
  }
  const auto& objecting = contradiction.contradicting;
  const int rank = horovod_.global_controller->GetRank();
  if (!calls_tensor && std::find(objecting.begin(), objecting.end(), rank) != objecting.end()) {
    Object(process_set_, id_, contradiction.name);
  }
}

void SetRoundWork::Learn(const horovod::common::Response& response,
                         const std::function<bool(Collective)>& can_be_planned) {
  for (const CallGroup& group :
       CallsOf(response, process_set_.tensor_queue, process_set_.group_table)) {
    if (!can_be_planned(group.calls[0].collective) || !calls_.Recurs(group.Key())) continue;
    if (group.number) {
      PlanLanes(plans_, unnamed_, group);
    } else {
      plans_.Learn(group.AsPlan());
    }
  }
}

}  // namespace horovod_opt
