// Planned path of a subcommunicator, a process set other than that of all ranks: plans, memory and
// thread of its own. Of sets whose ranks do not share memory everything is negotiated.
//
// Many sets never have a plan, as those of a grid of ranks that a library makes in advance. So
// memory and thread come with the first plan that is to become active. To make them is collective,
// and all ranks of the set are at the same place there: in a vote in which they all decide that a
// plan is to become active, or at the same one of the responses that they all perform in the same
// order. Nothing is announced before, so no other thread needs them earlier; what they find then
// they see through the lock of the table of plans.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/modes/topo/set_round_work.h"
#include "horovod_opt/csrc/binding/reduction/node_memory.h"
#include "horovod_opt/csrc/binding/reduction/planned_path.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
struct ProcessSet;
class Status;
class Timeline;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

// Framework threads may use plans() for as long as they hold the object, the background thread all
// of it.
class SetPath {
 public:
  // `id`: the number of the set. `unnamed`: its calls without a name. `problem`: why
  // nothing of it can be planned; empty: it can.
  // `request_round`: asks for a round.
  SetPath(State& state, horovod::common::HorovodGlobalState& horovod, int id,
          std::shared_ptr<horovod::common::ProcessSet> process_set,
          std::shared_ptr<UnnamedCalls> unnamed, const std::string& problem,
          std::function<void()> request_round);

  PlanTable& plans() { return plans_; }
  SetRoundWork& round_work() { return round_work_; }
  const std::shared_ptr<horovod::common::ProcessSet>& process_set() const { return process_set_; }
  std::string Failure() const;

  // Any thread.
  void DumpState(StatePage& page);

  // Reduces what is complete on all ranks: no rank adds anything any more.
  void Finish(std::chrono::seconds patience);
  // Fails what the path still holds with `status`. Afterwards everything is negotiated.
  void Close(const horovod::common::Status& status);

 private:
  // The first plan is about to become active: makes memory and thread. If they cannot be made, none
  // becomes active. Collective over the set.
  void Open();

  const std::shared_ptr<horovod::common::ProcessSet> process_set_;
  PlanTable plans_;
  const std::shared_ptr<UnnamedCalls> unnamed_;
  SetRoundWork round_work_;
  State& state_;
  horovod::common::Timeline& timeline_;
  std::unique_ptr<NodeMemory> node_;
  // No thread looks at what follows when it goes away, or comes: the background thread makes and
  // destroys it, others look at it for DumpState().
  std::mutex dump_mutex_;
  PlannedPath* dumped_path_ = nullptr;
  std::unique_ptr<PlannedPath> path_;  // none before the first plan, or if nothing can be planned
};

}  // namespace horovod_opt
