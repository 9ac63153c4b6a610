#include "horovod_opt/csrc/binding/modes/topo/unnamed_call.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "horovod/common/process_set.h"
#include "horovod_opt/csrc/binding/modes/topo/topo.h"

namespace horovod_opt {
namespace {

using horovod::common::ProcessSet;
using horovod::common::Request;
using horovod::common::Status;
using horovod::common::StatusCallback;
using horovod::common::TensorTableEntry;

constexpr char kPlannedAnew[] = "calls without a name are planned anew";

struct UnnamedCall {
  Topo& topo;
  std::shared_ptr<UnnamedCalls> unnamed;
  EnqueuePlanned enqueue_planned;
  CallGroup group;
  std::vector<TensorTableEntry> entries;
  std::vector<Request> requests;

  Status Send(ProcessSet& process_set, const UnnamedCalls::Turn& turn);
  // In a lane that another call has left.
  bool SendHeld(const UnnamedCalls::Turn& turn);
};

void GiveUp(PlanTable& plans, const std::vector<Plan>& lanes) {
  for (const Plan& lane : lanes) {
    plans.Remove(lane);
    plans.Reject(lane.hash, kPlannedAnew);  // asks for the vote in which it is forgotten
  }
}

// The last callback leaves the lane.
void LeaveAtEnd(std::vector<TensorTableEntry>& entries,
                const std::shared_ptr<UnnamedCalls>& unnamed, std::uint64_t call) {
  const auto under_way = std::make_shared<std::atomic<std::size_t>>(entries.size());
  for (TensorTableEntry& entry : entries) {
    entry.callback = [unnamed, call, under_way,
                      callback = std::move(entry.callback)](const Status& status) {
      callback(status);
      if (--*under_way == 0) unnamed->Leave(call);
    };
  }
}

Status UnnamedCall::Send(ProcessSet& process_set, const UnnamedCalls::Turn& turn) {
  LeaveAtEnd(entries, unnamed, turn.call);
  const auto plans = topo.PlansOf(entries[0].process_set_id);
  if (turn.lane != UnnamedCalls::kNegotiated && plans != nullptr) {
    const CallGroup in_lane = group.InLane(turn.lane);
    if (plans->Knows(in_lane.keys[0])) {
      return enqueue_planned(topo, *plans, process_set, in_lane, entries, requests, turn.number);
    }
    // Forgotten in a vote, for others that needed its place: so are the other lanes.
    unnamed->Drop(group.Key());
  }
  return process_set.tensor_queue.AddToTensorQueueMulti(entries, requests);
}

bool UnnamedCall::SendHeld(const UnnamedCalls::Turn& turn) {
  std::vector<StatusCallback> callbacks;
  for (const TensorTableEntry& entry : entries) callbacks.push_back(entry.callback);
  const auto process_set = topo.ProcessSetOf(entries[0].process_set_id);
  const Status status = process_set == nullptr ? horovod::common::PROCESS_SET_HAS_BEEN_REMOVED
                                               : Send(*process_set, turn);
  if (status.ok()) return true;
  for (const StatusCallback& callback : callbacks) callback(status);
  return false;
}

}  // namespace

Status EnqueueUnnamed(Topo& topo, ProcessSet& process_set, std::vector<TensorTableEntry>& entries,
                      std::vector<Request>& requests, EnqueuePlanned enqueue_planned) {
  const auto unnamed = topo.UnnamedOf(entries[0].process_set_id);
  auto group = CallsOf(requests);
  if (!group || !group->number) {
    unnamed->Pass();
    return process_set.tensor_queue.AddToTensorQueueMulti(entries, requests);
  }
  const std::int64_t key = group->Key();
  const std::uint64_t number = *group->number;
  UnnamedCall call{
      topo, unnamed, enqueue_planned, std::move(*group), std::move(entries), std::move(requests)};
  const auto turn = unnamed->Enter(
      key, number, [&] { return call.group.Description(); },
      [&] {
        const auto held = std::make_shared<UnnamedCall>(std::move(call));
        return [held](const UnnamedCalls::Turn& its) { return held->SendHeld(its); };
      });
  if (!turn) return Status::OK();
  const Status status = call.Send(process_set, *turn);
  if (!status.ok()) unnamed->Leave(turn->call);
  return status;
}

void PlanLanes(PlanTable& plans, UnnamedCalls& unnamed, const CallGroup& group) {
  std::vector<Plan> lanes;
  for (int lane = 0; lane < UnnamedCalls::kLanes; ++lane) {
    Plan plan = group.InLane(lane).AsPlan();
    if (!plans.Learn(plan)) return GiveUp(plans, lanes);
    lanes.push_back(std::move(plan));
  }
  unnamed.Plan(group.Key(), *group.number,
               [&plans, lanes = std::move(lanes)] { GiveUp(plans, lanes); });
}

bool IsOfLanes(const std::string& line) { return line.find(kPlannedAnew) != std::string::npos; }

}  // namespace horovod_opt
