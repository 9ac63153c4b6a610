// Mode topo: the planned lane, and the negotiated lane on demand.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>

#include "horovod_opt/csrc/core/plan_lane.h"
#include "node_memory.h"
#include "planned_lane.h"
#include "stall.h"
#include "state.h"

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
  Topo(State& state, horovod::common::HorovodGlobalState& horovod);

  PlanLane& plans() { return plans_; }

  // --- any thread ---
  // A request for the negotiated lane is in Horovod's queue, or there is another reason for a round.
  void RequestRound();

  // --- the background thread ---
  // Waits until a round of negotiation is wanted by any rank of the node or the heartbeat is due,
  // but not before the cycle that the last round began is over; `rest` is left of it. Then decides
  // with the other ranks about plans, if one of them asks for it. Collective.
  void BeginRound(std::chrono::nanoseconds rest);
  // All ranks have joined.
  void AllJoined() { plans_.Restart(); }
  // Fails what the lane still holds. Afterwards everything is negotiated.
  void Close();

 private:
  bool HasRequests() const;
  void Meet();
  void HoldCouncil();
  void ReportStall();

  State& state_;
  horovod::common::HorovodGlobalState& horovod_;
  PlanLane plans_;
  std::unique_ptr<NodeMemory> node_;
  std::unique_ptr<PlannedLane> lane_;  // none where nothing can be planned
  StallWatch stall_;
  Doorbell own_doorbell_;  // where the ranks of the node cannot share one
  std::atomic<std::uint64_t> round_{0};  // the last one begun
  const std::atomic<bool> never_{false};

  std::shared_mutex closing_;  // protects what follows
  Doorbell* doorbell_ = &own_doorbell_;
};

}  // namespace horovod_opt
