// Round of negotiation, in mode topo: what the ranks do in it besides negotiating.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "horovod/common/common.h"
#include "horovod/common/message.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/modes/topo/rounds.h"
#include "horovod_opt/csrc/binding/modes/topo/set_round_work.h"
#include "horovod_opt/csrc/binding/reduction/horovod_ops_gpu.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// For the background thread.
class RoundWork {
 public:
  // `plans`: those of all ranks.
  RoundWork(State& state, horovod::common::HorovodGlobalState& horovod, PlanTable& plans,
            HorovodOps& horovod_ops, Rounds& rounds)
      : state_(state),
        horovod_(horovod),
        plans_(plans),
        horovod_ops_(horovod_ops),
        rounds_(rounds) {}

  // Takes a request to join: it is negotiated in the first round in which all ranks know of it. Any
  // thread. False after Close().
  bool Join(horovod::common::TensorTableEntry& entry, horovod::common::Request& request);
  // In this round.
  bool AnyRankJoined() const { return any_rank_joined_; }
  // Fails what has not been negotiated.
  void Close();

  // A tensor waits in one of Horovod's queues, or a plan of all ranks for a vote.
  bool HasRequests() const;
  // Rounds are entries of the ready queue from now on, if the plans of all ranks want that.
  void EnterQueue();

  // Tells the other ranks what this one wants of the round and does what any of them wants.
  // `sets`: of the process sets with this rank, in an order that all ranks have, the set of all
  // ranks first. `failure`: why this rank cannot go on. Returns what each rank says, if one cannot:
  // then nothing else is done. Collective.
  std::string Meet(const std::vector<SetRoundWork*>& sets, const std::string& failure);

  // Why a rank has objected to the tensor `name` of the process set with these ranks; empty: none
  // has.
  std::string Objection(const std::vector<int>& ranks, const std::string& name) const;

 private:
  struct JoinRequest {
    horovod::common::TensorTableEntry entry;
    horovod::common::Request request;
  };

  static PlanTable::Stall StallOf(const std::vector<SetRoundWork*>& sets);
  bool WaitsLong(const std::vector<SetRoundWork*>& sets) const;
  // Finds, with the other ranks, what they wait for in vain, and gives it up.
  void EndContradictions(const std::vector<SetRoundWork*>& sets);

  State& state_;
  horovod::common::HorovodGlobalState& horovod_;
  PlanTable& plans_;
  HorovodOps& horovod_ops_;
  Rounds& rounds_;
  bool any_rank_joined_ = false;
  // Of what the ranks wait for.
  PlanTable::Clock::time_point last_comparison_ = PlanTable::Clock::now();
  std::map<std::pair<std::vector<int>, std::string>, std::string> objections_;

  mutable std::mutex mutex_;  // protects what follows
  std::vector<JoinRequest> joins_;
  bool closed_ = false;
};

}  // namespace horovod_opt
