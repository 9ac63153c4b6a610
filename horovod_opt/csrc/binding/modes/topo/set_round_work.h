// Round of negotiation for one process set: what its ranks do in it about its planned tensors.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/modes/topo/mismatch_watch.h"
#include "horovod_opt/csrc/binding/modes/topo/stall_watch.h"
#include "horovod_opt/csrc/core/agreement/contradictions.h"
#include "horovod_opt/csrc/core/agreement/unnamed_calls.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/plan/recurring_calls.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
struct ProcessSet;
class Response;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

// What a rank wants of a round; bits, combined over all ranks, which all do what any of them wants.
// Nothing: it is a heartbeat.
namespace want {
enum Want {
  kNegotiation = 1,
  kVote = 2,
  kFailure = 4,
  kStall = 8,
  kLateNegotiated = 16,  // both on any ranks: the same tensor may be meant
  kLatePlanned = 32,
  kLateCall = 64,  // one may be another call on each rank
  kJoined = 128,
  kContradiction = 256,  // a tensor waits so long that the ranks compare what they wait for
};
}

// For the background thread.
class SetRoundWork {
 public:
  // `id`: the number of the process set. `before_plan`: called once, before the first plan may
  // become active, on all ranks of the set at the same place; empty: nothing.
  SetRoundWork(State& state, horovod::common::HorovodGlobalState& horovod, int id,
               horovod::common::ProcessSet& process_set, PlanTable& plans, UnnamedCalls& unnamed,
               std::function<void()> before_plan = {})
      : state_(state),
        horovod_(horovod),
        id_(id),
        process_set_(process_set),
        plans_(plans),
        unnamed_(unnamed),
        before_plan_(std::move(before_plan)) {}

  // Bits, for this rank.
  int Wants();
  // Collective over the set, where `wants` is what any rank of the job wants.
  void Meet(int wants, PlanTable::Stall stall);
  // A tensor has waited so long that the job is to end.
  bool ShouldEnd() const { return stall_.ShouldEnd(plans_); }

  // This rank is about to join: its calls without a name, which others make meanwhile, are
  // planned no longer.
  void LeaveLanes() { unnamed_.DropAll(); }
  // The ranks make calls without a name in another order each; empty: they do not.
  const std::string& Failure() const { return disorder_; }

  int id() const { return id_; }
  // How long tensors may wait until anybody is warned; zero: forever.
  PlanTable::Clock::duration patience() const { return stall_.Warning(); }
  // This rank waits for something, and has since before `since`.
  bool AnyWaitsSince(PlanTable::Clock::time_point since) const;
  // The same of those that are negotiated; `barriers`: and of barriers.
  bool AnyNegotiatedSince(PlanTable::Clock::time_point since, bool barriers) const;
  // All that this rank waits for; long ago is before `since`.
  std::vector<WaitingTensor> Waiting(PlanTable::Clock::time_point since) const;
  // Waits in vain: its plan ends on this rank, or the rank objects to it.
  void GiveUp(const Contradiction& contradiction);

  // `response` is about to be performed: the ranks vote on calls that recur, if `can_be_planned`
  // says that those of this kind can be.
  void Learn(const horovod::common::Response& response,
             const std::function<bool(Collective)>& can_be_planned);

 private:
  void HoldVote(PlanTable::Stall stall);
  void RejectMismatches();
  void ReportStall();

  State& state_;
  horovod::common::HorovodGlobalState& horovod_;
  const int id_;
  horovod::common::ProcessSet& process_set_;
  PlanTable& plans_;
  UnnamedCalls& unnamed_;
  std::function<void()> before_plan_;
  StallWatch stall_;
  MismatchWatch mismatch_;
  RecurringCalls calls_;
  std::string disorder_;
};

}  // namespace horovod_opt
