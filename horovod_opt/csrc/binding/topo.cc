#include "topo.h"

#include <iostream>
#include <stdexcept>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod/common/operations.h"
#include "horovod_opt/csrc/core/sleep.h"
#include "planned_tensor.h"
#include "rank_rows.h"

namespace horovod_opt {
namespace {

using horovod::common::HorovodGlobalState;
using horovod::common::ReduceOp;
using horovod::common::Status;
using Clock = std::chrono::steady_clock;

// What a rank wants of a round; bits, combined over ranks. Nothing: it is a heartbeat.
enum Agenda { kNegotiation = 1, kCouncil = 2, kDifference = 4, kStall = 8 };

void Say(const HorovodGlobalState& horovod, const std::string& line) {
  if (horovod.global_controller->GetRank() == 0) {
    std::cerr << "horovod-opt: " + line + "\n" << std::flush;
  }
}

void Negotiate(ArrivalPtr arrival) {
  PlannedTensor& tensor = TensorOf(arrival);
  auto& entry = tensor.entry;
  const auto callback = entry.callback;
  const Status status = horovod::common::EnqueueTensorAllreduce(
      entry.context, entry.tensor, entry.output, entry.ready_event_list, entry.tensor_name,
      entry.device, callback, static_cast<ReduceOp>(tensor.reduction.reduce_op),
      tensor.reduction.prescale, tensor.reduction.postscale, entry.process_set_id);
  if (!status.ok()) callback(status);
}

}  // namespace

Topo::Topo(State& state, HorovodGlobalState& horovod)
    : state_(state),
      horovod_(horovod),
      plans_(
          ReadyLog::kTickets,
          [this](int ticket) {
            node_->log().Ready(ticket, horovod_.global_controller->GetSize());
          },
          [this] { RequestRound(); }) {
  auto& controller = *horovod.global_controller;
  std::string problem;
  node_ = NodeMemory::Share(controller, problem);
  if (node_ != nullptr) {
    doorbell_ = &node_->doorbell();
    if (controller.GetLocalSize() != controller.GetSize()) {
      problem = "the ranks are on several nodes, and planned tensors move through the memory of one";
    }
  }
  if (!problem.empty()) {
    Say(horovod, "mode topo: nothing is planned, every tensor is negotiated: " + problem);
    plans_.Disable(problem);
    return;
  }
  lane_ = std::make_unique<PlannedLane>(horovod, plans_, *node_, state.lane_counters,
                                        state.settings.verify != 0);
}

void Topo::RequestRound() {
  std::shared_lock<std::shared_mutex> lock(closing_);
  if (doorbell_ != nullptr) doorbell_->Ring(round_ + 1);
}

bool Topo::HasRequests() const {
  if (horovod_.shut_down || plans_.WantsCouncil()) return true;
  auto& table = horovod_.process_set_table;
  for (auto id : table.Ids()) {
    const auto& process_set = table.Get(id);
    if (!process_set.initialization_done || !process_set.tensor_queue.IsEmpty()) return true;
  }
  return false;
}

void Topo::BeginRound(std::chrono::nanoseconds rest) {
  const auto start = Clock::now();
  const std::uint64_t round = round_ + 1;
  const auto heartbeat = std::chrono::milliseconds(state_.settings.heartbeat_ms);
  if (HasRequests() || !doorbell_->Wait(round, heartbeat, never_)) doorbell_->Ring(round);
  rest -= Clock::now() - start;
  if (rest.count() > 0) SleepFor(rest);
  round_ = round;
  Meet();
}

void Topo::Meet() {
  auto& controller = *horovod_.global_controller;
  long long own = HasRequests() ? kNegotiation : 0;
  if (plans_.WantsCouncil()) own |= kCouncil;
  if (lane_ != nullptr && !lane_->Difference().empty()) own |= kDifference;
  if (stall_.Due(plans_)) own |= kStall;
  std::vector<long long> agenda{own};
  controller.CrossRankBitwiseOr(agenda, 1);
  if (agenda[0] & kNegotiation) state_.lane_counters.AddRound();
  if (agenda[0] & kDifference) {
    std::string text = "The ranks were about to reduce different tensors.";
    const auto rows = GatherRows(controller, lane_->Difference());
    for (std::size_t rank = 0; rank < rows.size(); ++rank) {
      text += " Rank " + std::to_string(rank) + ": " + (rows[rank].empty() ? "-" : rows[rank]) + ".";
    }
    throw std::runtime_error(text);
  }
  if (agenda[0] & kCouncil) HoldCouncil();
  if (agenda[0] & kStall) ReportStall();
  if (stall_.ShouldEnd(plans_)) horovod_.shut_down = true;
}

void Topo::HoldCouncil() {
  auto& controller = *horovod_.global_controller;
  const bool times = state_.settings.recut != 0 && controller.GetRank() == 0;
  auto outcome = plans_.Apply(GatherRows(controller, plans_.MeetingRow(times)));
  state_.lane_counters.AddCouncil();
  for (ArrivalPtr& arrival : outcome.negotiated) Negotiate(std::move(arrival));
  for (ArrivalPtr& arrival : outcome.overlapping) {
    TensorOf(arrival).entry.FinishWithCallback(horovod::common::DUPLICATE_NAME_ERROR);
  }
  for (const std::string& line : outcome.rejected) Say(horovod_, line + "; it stays negotiated");
}

void Topo::ReportStall() {
  const auto rows = GatherRows(*horovod_.global_controller, StallWatch::Row(plans_));
  const std::string text = StallWatch::Describe(rows);
  if (text.empty() || horovod_.global_controller->GetRank() != 0) return;
  std::cerr << "horovod-opt: planned tensors wait for more than " + stall_.Limit() +
                   " seconds for the ranks that miss them:" + text + "\n"
            << std::flush;
}

void Topo::Close() {
  lane_.reset();
  auto left = plans_.Close();
  {
    std::lock_guard<std::shared_mutex> lock(closing_);
    doorbell_ = nullptr;
  }
  node_.reset();
  for (ArrivalPtr& arrival : left) {
    TensorOf(arrival).entry.FinishWithCallback(horovod::common::SHUT_DOWN_ERROR);
  }
}

}  // namespace horovod_opt
