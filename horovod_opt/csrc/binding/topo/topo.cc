#include "horovod_opt/csrc/binding/topo/topo.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod/common/operations.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/topo/planned_tensor.h"
#include "horovod_opt/csrc/core/waiting/sleep.h"

namespace horovod_opt {
namespace {

using horovod::common::HorovodGlobalState;
using horovod::common::ReduceOp;
using horovod::common::Status;
using Clock = std::chrono::steady_clock;

// What a rank wants of a round; bits, combined over ranks. Nothing: it is a heartbeat.
enum Agenda {
  kNegotiation = 1,
  kVote = 2,
  kFailure = 4,
  kStall = 8,
  kLateNegotiated = 16,  // both on any ranks: the same tensor may be meant
  kLatePlanned = 32,
};

// How late a request of another group is noticed at the latest, and which part of the time since
// the last one if that is longer.
constexpr std::chrono::milliseconds kListening(10);
constexpr int kPartOfQuiet = 20;
// How long a rank waits for a round to come before it looks whether it can.
constexpr std::chrono::milliseconds kLookAgain(100);
// How long a rank waits at the end for others that may have died.
constexpr std::chrono::seconds kPatience(10);

void Print(const std::string& line) { std::cerr << "horovod-opt: " + line + "\n" << std::flush; }

// On rank 0, for all.
void Say(const HorovodGlobalState& horovod, const std::string& line) {
  if (horovod.global_controller->GetRank() == 0) Print(line);
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

Topo::Topo(State& state, HorovodGlobalState& horovod, PerformOperation perform)
    : state_(state),
      horovod_(horovod),
      plans_(
          kRoundId,  // the bucket IDs before it
          [this](int bucket_id) {
            node_->ready().Ready(bucket_id, static_cast<int>(groups_.ranks.size()));
          },
          [this] { RequestRound(); }),
      operations_(horovod, perform, plans_, state.path_counters,
                  state.settings.shared_memory == 0 || state.settings.deterministic != 0,
                  state.settings.verify != 0) {
  const std::string problem = Connect();
  if (node_ != nullptr) doorbell_ = &node_->doorbell();
  if (!problem.empty()) {
    Say(horovod, "mode topo: nothing is planned, every tensor is negotiated: " + problem);
    plans_.Disable(problem);
    return;
  }
  PathCounters& counters = state.path_counters;
  if (order_connection_ != nullptr && groups_.index == 0) {
    order_ = std::make_unique<OrderThread>(*node_, *order_connection_, counters);
  }
  path_ = std::make_unique<PlannedPath>(horovod, plans_, *node_, data_connection_.get(),
                                        operations_, counters, state.settings.verify != 0);
}

std::string Topo::Connect() {
  auto& controller = *horovod_.global_controller;
  const int rank = controller.GetRank();
  std::vector<int> node_of;
  for (const auto& first :
       GatherRows(controller, std::to_string(controller.GetLocalCommRanks()[0]))) {
    node_of.push_back(std::stoi(first));
  }
  groups_ = MakeGroups(node_of, state_.settings.node_ranks, rank);
  std::string problem;
  node_ = NodeMemory::Share(controller, groups_, problem);
  if (node_ == nullptr && groups_.ranks.size() > 1) {
    Say(horovod_,
        "mode topo: the ranks of a node share no memory and reduce as if each had a node "
        "of its own: " +
            problem);
    groups_ = MakeGroups(node_of, 1, rank);
    node_ = NodeMemory::Share(controller, groups_, problem);
  }
  if (node_ == nullptr || groups_.Alone()) return problem;
  order_connection_ = CrossNodes::Connect(horovod_, groups_, problem);
  if (order_connection_ != nullptr) {
    data_connection_ = CrossNodes::Connect(horovod_, groups_, problem);
  }
  return problem;
}

void Topo::RequestRound() {
  std::shared_lock<std::shared_mutex> lock(closing_);
  if (doorbell_ != nullptr) Request(round_ + 1);
}

void Topo::Request(std::uint64_t round) {
  if (doorbell_->Ring(round) && rounds_in_queue_) node_->ready().Ready(kRoundId, 1);
}

bool Topo::HasRequests() const {
  if (horovod_.shut_down || plans_.WantsVote()) return true;
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
  AwaitRound(round);
  rest -= Clock::now() - start;
  if (rest.count() > 0) SleepFor(rest);
  round_ = round;
  Meet();
}

void Topo::AwaitRound(std::uint64_t round) {
  if (HasRequests()) Request(round);
  if (!rounds_in_queue_) {
    if (!doorbell_->Wait(round, LongestWait(), never_)) Request(round);
    return;
  }
  auto deadline = Clock::now() + LongestWait();
  while (!operations_.PerformUntilRound()) {
    if (operations_.Wait(deadline)) continue;
    Request(round);
    // Nothing comes any more. The others may wait in a bucket before the round, so there is nobody
    // to tell; they notice that this rank is gone: those of its group here, those of other groups
    // that reduce with it by their connection.
    const std::string failure = Failure();
    if (!failure.empty()) {
      said_ = true;
      throw std::runtime_error("This rank cannot go on: " + failure);
    }
    const std::string missing = node_->Missing();
    if (!missing.empty())
      throw std::runtime_error(missing + "; the others wait for it in a bucket");
    deadline = Clock::now() + kLookAgain;
  }
}

// Other groups do not ring here, so this one has to look. After one request more are likely.
std::chrono::nanoseconds Topo::LongestWait() {
  const std::chrono::nanoseconds heartbeat =
      std::chrono::milliseconds(state_.settings.heartbeat_ms);
  if (node_ != nullptr && groups_.Alone()) return heartbeat;
  const auto wait = std::min(heartbeat, listening_);
  const std::chrono::nanoseconds quiet = Clock::now() - last_request_;
  const auto most = std::max<std::chrono::nanoseconds>(kListening, quiet / kPartOfQuiet);
  listening_ = std::min(2 * listening_, most);
  return wait;
}

std::string Topo::Failure() const {
  if (order_ != nullptr && !order_->Failure().empty()) {
    return "has lost the order of the nodes (" + order_->Failure() + ")";
  }
  return path_ == nullptr ? "" : path_->Failure();
}

void Topo::Meet() {
  auto& controller = *horovod_.global_controller;
  long long own = HasRequests() ? kNegotiation : 0;
  if (plans_.WantsVote()) own |= kVote;
  const std::string failure = Failure();
  if (!failure.empty()) own |= kFailure;
  if (stall_.Due(plans_)) own |= kStall;
  const int waits = split_.Look(
      plans_, [this] { return horovod_.process_set_table.Get(0).tensor_queue.Names(); });
  if (waits & SplitWatch::kNegotiated) own |= kLateNegotiated;
  if (waits & SplitWatch::kPlanned) own |= kLatePlanned;
  std::vector<long long> agenda{own};
  controller.CrossRankBitwiseOr(agenda, 1);
  if (agenda[0] & kNegotiation) {
    state_.path_counters.AddRound();
    listening_ = std::chrono::milliseconds(1);
    last_request_ = Clock::now();
  }
  if (agenda[0] & kFailure) {
    said_ = true;
    throw std::runtime_error("The ranks cannot go on together; what each was about to reduce:" +
                             Listed(GatherRows(controller, failure)));
  }
  if ((agenda[0] & kLateNegotiated) && (agenda[0] & kLatePlanned)) EndSplitPlans();
  if (agenda[0] & kVote) HoldVote();
  if (agenda[0] & kStall) ReportStall();
  if (stall_.ShouldEnd(plans_)) horovod_.shut_down = true;
}

void Topo::HoldVote() {
  auto& controller = *horovod_.global_controller;
  const bool times = state_.settings.recut != 0 && controller.GetRank() == 0;
  auto outcome = plans_.Apply(GatherRows(controller, plans_.VoteRow(times)));
  state_.path_counters.AddVote();
  if (!rounds_in_queue_ && plans_.AnyCommitted(operations_.everything())) {
    rounds_in_queue_ = true;
    // Whoever has asked for the next round so far has put nothing into the ready queue.
    if (groups_.index == 0) node_->ready().Ready(kRoundId, 1);
  }
  for (ArrivalPtr& arrival : outcome.negotiated) Negotiate(std::move(arrival));
  for (ArrivalPtr& arrival : outcome.overlapping) {
    TensorOf(arrival).entry.FinishWithCallback(horovod::common::DUPLICATE_NAME_ERROR);
  }
  for (const std::string& line : outcome.rejected) Say(horovod_, line + "; it stays negotiated");
}

void Topo::EndSplitPlans() {
  const auto rows = GatherRows(*horovod_.global_controller, split_.Row());
  for (const auto& [plan, reason] : SplitWatch::Split(rows)) plans_.Reject(plan, reason);
}

void Topo::ReportStall() {
  const auto rows = GatherRows(*horovod_.global_controller, StallWatch::Row(plans_));
  const std::string text = StallWatch::Describe(rows);
  if (text.empty()) return;
  Say(horovod_, "planned tensors wait for more than " + stall_.Limit() +
                    " seconds for the ranks that miss them:" + text);
}

void Topo::Finish() {
  if (path_ == nullptr) return;
  const auto await_all_ranks = [&] {
    std::vector<long long> nothing{0};
    horovod_.global_controller->CrossRankBitwiseOr(nothing, 1);
  };
  plans_.Refuse();
  await_all_ranks();  // nothing becomes ready any more
  if (order_ != nullptr) order_->Finish();
  await_all_ranks();  // nothing is appended to any ready queue
  path_->Finish(kPatience);
  while (operations_.PerformUntilRound()) continue;
}

void Topo::Close() {
  // The script may have caught the error and shut Horovod down before the next round.
  const std::string failure = Failure();
  if (!failure.empty() && !said_) {
    Print("rank " + std::to_string(state_.rank) + " could not go on: " + failure);
  }
  order_.reset();
  path_.reset();
  auto left = plans_.Close();
  for (ArrivalPtr& arrival : operations_.Drain()) left.push_back(std::move(arrival));
  {
    std::lock_guard<std::shared_mutex> lock(closing_);
    doorbell_ = nullptr;
  }
  if (data_connection_ != nullptr && data_connection_->MustStay()) {
    data_connection_.release();
    node_.release();
  }
  if (order_connection_ != nullptr && order_connection_->MustStay()) order_connection_.release();
  order_connection_.reset();
  data_connection_.reset();
  node_.reset();
  for (ArrivalPtr& arrival : left) {
    TensorOf(arrival).entry.FinishWithCallback(horovod::common::SHUT_DOWN_ERROR);
  }
}

}  // namespace horovod_opt
