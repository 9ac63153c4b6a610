// Mode topo: the planned path, and the negotiated path on demand.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>

#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/topo/cross_nodes.h"
#include "horovod_opt/csrc/binding/topo/node_memory.h"
#include "horovod_opt/csrc/binding/topo/order_thread.h"
#include "horovod_opt/csrc/binding/topo/planned_operations.h"
#include "horovod_opt/csrc/binding/topo/planned_path.h"
#include "horovod_opt/csrc/binding/topo/split_watch.h"
#include "horovod_opt/csrc/binding/topo/stall.h"
#include "horovod_opt/csrc/core/nodes/groups.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// Of one hvd.init(). Made by the background thread; framework threads may look at it ever after.
class Topo {
 public:
  // Collective.
  Topo(State& state, horovod::common::HorovodGlobalState& horovod, PerformOperation perform);

  PlanTable& plans() { return plans_; }
  PlannedOperations& operations() { return operations_; }

  // --- any thread --- A request for the negotiated path is in Horovod's queue, or there is another
  // reason for a round.
  void RequestRound();

  // --- the background thread ---
  // Waits until a round of negotiation is wanted by any rank of the group or is due for another
  // reason, but not before the cycle that the last round began is over; `rest` is left of it. Then
  // decides with the other ranks about plans, if one of them asks for it. Collective.
  void BeginRound(std::chrono::nanoseconds rest);
  // All ranks have joined.
  void AllJoined() { plans_.Restart(); }
  // After the last round: reduces what is complete on all ranks. Collective.
  void Finish();
  // Fails what the path still holds. Afterwards everything is negotiated.
  void Close();

 private:
  // What stands in the way of planned tensors; empty: nothing.
  std::string Connect();
  bool HasRequests() const;
  void Request(std::uint64_t round);
  void AwaitRound(std::uint64_t round);
  std::chrono::nanoseconds LongestWait();
  std::string Failure() const;  // why the path stands still
  void Meet();
  void HoldVote();
  void ReportStall();
  void EndSplitPlans();

  State& state_;
  horovod::common::HorovodGlobalState& horovod_;
  PlanTable plans_;
  Groups groups_;
  std::unique_ptr<NodeMemory> node_;
  std::unique_ptr<CrossNodes> order_connection_, data_connection_;  // of several groups
  std::unique_ptr<OrderThread> order_;  // on the leader of one of several groups
  PlannedOperations operations_;
  std::unique_ptr<PlannedPath> path_;  // none where nothing can be planned
  std::chrono::nanoseconds listening_{
      std::chrono::milliseconds(1)};  // until other groups are heard
  std::chrono::steady_clock::time_point last_request_ = std::chrono::steady_clock::now();
  StallWatch stall_;
  SplitWatch split_;
  Doorbell own_doorbell_;                // where there is no memory at all
  std::atomic<std::uint64_t> round_{0};  // the last one begun
  bool said_ = false;                    // why the ranks cannot go on
  // Rounds take their place in the ready queue, since an active plan uses Horovod's operations.
  std::atomic<bool> rounds_in_queue_{false};
  const std::atomic<bool> never_{false};

  std::shared_mutex closing_;  // protects what follows
  Doorbell* doorbell_ = &own_doorbell_;
};

}  // namespace horovod_opt
