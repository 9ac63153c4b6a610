// What the ranks do in a round of negotiation besides negotiating, in mode topo.
#pragma once

#include <string>

#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/topo/planned_operations.h"
#include "horovod_opt/csrc/binding/topo/rounds.h"
#include "horovod_opt/csrc/binding/topo/split_watch.h"
#include "horovod_opt/csrc/binding/topo/stall.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// For the background thread.
class Agenda {
 public:
  Agenda(State& state, horovod::common::HorovodGlobalState& horovod, PlanTable& plans,
         PlannedOperations& operations, Rounds& rounds)
      : state_(state), horovod_(horovod), plans_(plans), operations_(operations), rounds_(rounds) {}

  // A tensor waits in Horovod's queue, or a plan for a vote.
  bool HasRequests() const;

  // Tells the other ranks what this one wants of the round and does what any of them wants.
  // `failure`: why this rank cannot go on. Returns what each rank says, if one cannot: then nothing
  // else is done. Collective.
  std::string Meet(const std::string& failure);

 private:
  void HoldVote();
  void ReportStall();
  void EndSplitPlans();

  State& state_;
  horovod::common::HorovodGlobalState& horovod_;
  PlanTable& plans_;
  PlannedOperations& operations_;
  Rounds& rounds_;
  StallWatch stall_;
  SplitWatch split_;
};

}  // namespace horovod_opt
