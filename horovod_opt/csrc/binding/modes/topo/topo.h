// Graph topology, mode topo (TOPO, dissertation 6.3.4): order and fusion of tensors are precomputed
// from the framework's graph, so that steady training negotiates nothing. Tensors of an active plan
// take the planned path (planned_path.h): they are reduced as soon as their bucket is complete on
// all ranks. All others take the negotiated path, upstream's, in rounds on demand (rounds.h), in
// which the ranks also decide about plans (consensus.h).
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/modes/topo/round_work.h"
#include "horovod_opt/csrc/binding/modes/topo/rounds.h"
#include "horovod_opt/csrc/binding/modes/topo/set_path.h"
#include "horovod_opt/csrc/binding/modes/topo/set_round_work.h"
#include "horovod_opt/csrc/binding/reduction/horovod_ops_gpu.h"
#include "horovod_opt/csrc/binding/reduction/horovod_ops_order_thread.h"
#include "horovod_opt/csrc/binding/reduction/node_memory.h"
#include "horovod_opt/csrc/binding/reduction/planned_path.h"
#include "horovod_opt/csrc/core/agreement/unnamed_calls.h"
#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// Belongs to one hvd.init(). Made by the background thread; framework threads may look at it ever
// after.
class Topo {
 public:
  // Collective.
  Topo(State& state, horovod::common::HorovodGlobalState& horovod, PerformOperation perform);

  HorovodOps& horovod_ops() { return horovod_ops_; }

  // --- any thread ---
  // Those of a process set; nullptr: it has none on this rank.
  std::shared_ptr<PlanTable> PlansOf(int process_set_id);
  std::map<int, std::shared_ptr<PlanTable>> AllPlans();  // by process set
  // Those that a process set has called, since its first.
  std::shared_ptr<UnnamedCalls> UnnamedOf(int process_set_id);
  std::shared_ptr<horovod::common::ProcessSet> ProcessSetOf(int id) const;  // nullptr: it is gone
  // Horovod's queue has a request for the negotiated path, or a round is wanted for another reason.
  void RequestRound() { rounds_.Request(); }
  // What all of it does, for a process that hangs.
  void DumpState(StatePage& page);
  // Takes a request to join, unless the path is closed.
  bool Join(horovod::common::TensorTableEntry& entry, horovod::common::Request& request);

  // --- the background thread ---
  // Waits for the next round of negotiation; then looks with the other ranks at what there is to do
  // in it. Collective.
  void BeginRound(std::chrono::nanoseconds rest);
  // `response` is about to be performed: the ranks vote on calls that recur.
  void LearnCalls(const horovod::common::Response& response,
                  horovod::common::ProcessSet& process_set);
  // Why a rank has objected to a tensor of the process set with these ranks; empty: none has.
  std::string Objection(const std::vector<int>& ranks, const std::string& name) const {
    return round_work_.Objection(ranks, name);
  }
  // All ranks have joined.
  void AllJoined();
  // After the last round: reduces what is complete on all ranks. Collective.
  void Finish();
  // Fails what the path still holds. Afterwards everything is negotiated.
  void Close();

 private:
  // Connects the ranks. Returns why no tensor can be planned; empty: they can be.
  std::string Connect(PlannedPath::Network& network);
  std::string Failure() const;  // why a path stands still
  void CheckPeers();            // throws if a round cannot come any more
  bool CanBePlanned(Collective collective) const;
  bool WantsRound() const;
  // Process sets have come, or gone: all ranks have made or removed them in the last round.
  // Collective.
  void FollowProcessSets();
  // Why nothing of a process set with these ranks can be planned; empty: it can.
  std::string Obstacle(const std::vector<int>& ranks) const;

  State& state_;
  horovod::common::HorovodGlobalState& horovod_;
  PlanTable plans_;
  Groups groups_;
  std::unique_ptr<NodeMemory> node_;
  HorovodOps horovod_ops_;
  Rounds rounds_;
  UnnamedCalls unnamed_;  // of all ranks
  RoundWork round_work_;
  SetRoundWork set_round_work_;                       // of all ranks
  std::unique_ptr<PlannedPath> path_;                 // none where nothing can be planned
  std::unique_ptr<HorovodOpsOrderThread> ops_order_;  // on the leader of one of several groups
  bool failure_reported_ = false;                     // why the ranks cannot go on

  // Held while somebody looks at the path for DumpState(); nobody does once it is closed.
  std::mutex dump_mutex_;
  bool closed_ = false;

  // By process set, but that of all ranks. The background thread alone writes it, under the mutex.
  std::map<int, std::shared_ptr<SetPath>> sets_;
  // The same; any thread adds some, also before a set has its path: all ranks count from its first
  // call.
  std::map<int, std::shared_ptr<UnnamedCalls>> unnamed_of_sets_;
  std::shared_mutex mutex_;
};

}  // namespace horovod_opt
