// A job of a few ranks as a world of events: their framework's threads, which send tensors, the
// background threads, which vote and negotiate, and the threads of the planned path. Each event is
// what a thread does under one lock of PlanTable; negotiation and reduction are models.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/native/exploration/adapter.h"
#include "tests/native/exploration/group_presence.h"
#include "tests/native/exploration/search.h"

namespace horovod_opt {
namespace exploration {

// What a job does. Each plan has a thread on each rank, which sends the tensors of an iteration, in
// any order, and begins the next one when all are reduced.
struct Scenario {
  struct Disturbance {
    enum Kind {
      kReject,    // the rank finds that it cannot go on with `plan`
      kDiffers,   // the next tensor of `plan`, `slot` is not the planned one
      kLeaveOut,  // it does not come again
      kRemove,    // the graph of `plan` is gone, as are so many others that its keys go, too
      kShutdown,  // the rank asks for the end of all
      kDeath,     // it ends without a word
    };
    Kind kind;
    int rank = 0, plan = 0, slot = 0;
  };
  // The rank leaves this iteration, which is a step, after so many tensors, and does not wait for
  // them. It sends the same names again: one that is still negotiated is refused, and it tries
  // again.
  struct Leave {
    int rank, iteration, sent;
  };

  std::vector<Shape> plans;
  int ranks = 3;
  int iterations = 3;
  int known = 0;  // so many of them happen in one order, and their votes, before all others
  std::vector<Disturbance> disturbances;  // each at any time, after the one before
  std::vector<Leave> leaves;              // if any, iterations of the first plan are steps
  bool in_order = false;                  // a backward pass: its tensors come in one order
  std::vector<int> joins;  // by rank: after how many iterations it joins; empty: never
  std::set<int> on_gpu;    // ranks whose tensors are on a GPU
  std::vector<int> late;   // by plan: the iteration of the first before it begins
  int capacity = 8;        // bucket IDs
  bool rebuilt = false;    // buckets, by the times of rank 0
  bool ends_active = false;  // all plans are active on all ranks when nothing goes on
};

class Job : public World {
 public:
  // `known`: what happens in one order before all others; nullptr: it finds out.
  explicit Job(const Scenario& scenario, const std::vector<Event>* known = nullptr);

  std::vector<Event> Enabled() const override;
  Footprint Do(const Event& event) override;
  std::string State() const override;
  void CheckEnd() override;
  std::string Name(const Event& event) const override;

  const std::vector<Event>& known() const { return known_events_; }
  // How many sums of planned buckets have been made, on all ranks.
  int planned() const { return planned_; }

 private:
  enum Kind {
    kSend,
    kRefuse,
    kTake,
    kReduce,
    kVote,
    kApply,
    kJoin,
    kRestart,
    kLeave,
    kDisturb,
    kFinish,
    kClose,
    kNotice,
  };
  enum class Sent { kNot, kYes, kReduced, kFailed };
  struct Thread {
    int iteration = 1;
    std::map<int, std::vector<Sent>> slots;  // by iteration that is not over
    std::optional<int> refused;              // slot whose tensor negotiation has just refused
    std::map<int, int> tries;                // by slot: refused in this iteration
  };
  struct Rank {
    std::unique_ptr<RankPlans> plans;
    std::vector<Thread> threads;                    // by plan
    // Plan, slot -> iteration; after it those that were handed back meanwhile.
    std::map<std::pair<int, int>, std::vector<int>> negotiated;
    std::vector<Tensor> deferred;                   // in their order
    std::map<int, int> announced;                   // by bucket ID: and not taken
    std::optional<RankPlans::Bucket> work;          // is being reduced
    int taken = 0;                                  // entries of the queue
    std::string row;                                // of this vote
    std::size_t decided = 0, history = 0;           // hashes: the last decisions, and all
    bool voted = false, applied = false, joined = false, restarted = false;
    bool finished = false, closed = false, dead = false;
    std::vector<int> untaken;
    std::set<std::pair<int, int>> different, left_out, told;  // plan, slot
  };

  static Event MakeEvent(int rank, int thread, Kind kind, int argument = 0) {
    return {8 * rank + thread, 16 * kind + argument};
  }
  static Kind KindOf(const Event& event) { return static_cast<Kind>(event.code / 16); }

  // --- job_events.cc: what happens ---
  void Send(int rank, int plan, int slot);
  void Refuse(int rank, int plan);
  void Leave(int rank);
  void Disturb(int rank);
  void Take(int rank);
  void Reduce(int rank);
  void Notice(int rank);
  void CastVote(int rank);
  void Apply(int rank, std::optional<int> sent_meanwhile);
  void Restart(int rank);
  void Finish(int rank);
  void Close(int rank);

  // --- job_rules.cc: what must be true ---
  void Announced(int rank, int bucket_id);
  void CheckBucket(int rank, const RankPlans::Bucket& bucket);
  void TakesLane(const Tensor& tensor, bool planned);
  void Negotiate(int rank, const Tensor& tensor, bool handed_back);
  void TryNegotiation(const std::pair<int, int>& name);
  void End(int rank, const Tensor& tensor, Sent how);
  void CheckTogether() const;

  // --- job.cc ---
  void Enable(int rank, std::vector<Event>& events) const;
  void EnableFramework(int rank, std::vector<Event>& events) const;
  void EnableBackground(int rank, std::vector<Event>& events) const;
  int Limit(int rank) const;
  bool InVote() const;
  bool MaySend(int rank, int plan, int slot) const;
  bool MayLeave(int rank) const;
  void Touch(int rank) { footprint_ |= Footprint{1} << rank; }
  void TouchShared(int object) { footprint_ |= Footprint{1} << (8 + object); }
  void TouchAll() { footprint_ = ~Footprint{0}; }
  std::string StateOf(const Rank& rank) const;
  template <class Is>
  int Count(const Is& is) const {
    int number = 0;
    for (const Rank& rank : ranks_) number += is(rank) ? 1 : 0;
    return number;
  }

  const Scenario scenario_;
  bool is_known_ = true;  // in the iterations that happen in one order
  std::vector<Event> known_events_;
  std::vector<Rank> ranks_;
  GroupQueue queue_;
  std::unique_ptr<GroupPresence> presence_;  // if a rank may die
  std::size_t disturbed_ = 0;                // how many disturbances have happened
  bool shutdown_ = false;
  Footprint footprint_ = 0;
  int planned_ = 0;
  // By entry of the queue: plan, iteration and slots as the first rank has found them.
  std::map<int, std::tuple<std::string, std::uint64_t, std::vector<int>, std::vector<bool>>> found_;
  std::map<int, int> iterations_;                    // by entry: of its tensors
  std::map<std::tuple<int, int, int>, bool> lanes_;  // plan, slot, iteration: planned
  std::map<std::tuple<int, int, int>, int> sums_;    // plan, slot, iteration: ranks with it
};

// For Explore().
MakeWorld JobsOf(const Scenario& scenario);

}  // namespace exploration
}  // namespace horovod_opt
