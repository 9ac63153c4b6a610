// Consensus by a vote: how all ranks decide together when a plan becomes active and when it ends.
//
// In a round of negotiation in which any rank asks for it, the ranks vote: every rank defers its
// arrivals and gathers the votes of all, one row for each rank with its vote on each plan. All
// derive the same decisions from the same rows, so that nobody has to announce them.
//
// Invariants:
// 1. Arrivals stay deferred from the vote until the decision is applied, so `last_iteration` is
//    still true then. (Otherwise a rank could negotiate a tensor of iteration n which others expect
//    on the planned path.)
// 2. A switch takes effect in the iteration after the last one that any rank has begun: no
//    iteration is ever split between the paths.
// 3. A plan becomes active only if every rank has it, its warm-up iterations went as planned on
//    every rank, and the same tensors are on GPUs on every rank, so that all reduce them in the
//    same way. Which GPU that is may differ from rank to rank, and every rank knows it of all. What
//    any rank leaves out belongs to the plan of none (plan_run.h, invariant 7). A
//    rank that has joined votes for no plan: it would never send its tensors.
// 4. A plan that ends splits no bucket either: what is complete on every rank is reduced, and
//    everything else that has arrived is negotiated, on every rank. `completions` tells them apart.
//    (What is complete in one group only may be on its way to the others: plan_run.h, invariant 6.)
// 5. The bucket IDs of a plan are given to others, and a plan is forgotten, only when nothing of it
//    is under way on any rank.
// 6. A step that a rank has left is abandoned once every rank has all of it, has gone on to the next,
//    or has long waited for something else: while some rank may be about to leave it as well, or is
//    only slow, it is waited for. It fails on the ranks that have not left it, so that the next step
//    of all is the same one. Where the framework says that a step is over, it waits for its tensors
//    itself: then it is enough that every rank has begun it, so that all count alike afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {

enum class PlanState {
  kResting,   // was active, and its bucket IDs were given to other plans
  kCaptured,  // its warm-up iterations are not over on this rank
  kReady,     // its warm-up iterations went as planned
  kActive,
  kPausing,  // active, and this rank has joined
  kEnding,   // active, and this rank wants it to end
  kFailed,   // cannot be planned
  kEnded,    // negotiated for good, as every rank knows
};

// What one rank says about one plan.
struct Vote {
  std::string hash;
  PlanState state = PlanState::kCaptured;
  std::uint64_t last_iteration = 0;  // the last that has begun on this rank
  std::string reason;                // of kEnding and kFailed
  // Mean arrival in us after the start of an iteration, by slot; empty: no rebuild of buckets. And
  // how many bytes a new bucket may have.
  std::vector<std::int64_t> times;
  // Of this rank's tensors, by slot; empty: all are in main memory.
  Devices devices;
  // By bucket, those of older partitions first (bucket_filling.h): how often it was complete here.
  std::vector<std::uint64_t> completions;
  std::vector<int> left_out;  // slots that this rank leaves out
  bool bound = true;          // this rank still has a graph with its keys
  bool under_way = false;     // a tensor has arrived and is not reduced
  bool whole = true;          // all slots have arrived equally often
  std::int64_t idle_ms = 0;   // since a tensor has arrived; of rank 0 alone
  // Of plans whose ranks tell steps apart (plan_run.h, invariant 8):
  bool goes_on = false;      // a tensor of the next step has arrived, and is held
  bool left = false;         // the step is not whole, and as far as known never will be
  bool step_over = false;    // it is known, as the framework says so
  std::vector<int> missing;  // slots that have not arrived in the step that was left
  BucketLimits limits;
};

// What all ranks do about one plan.
struct Decision {
  enum Kind {
    kWait,
    kCommit,
    kRebuild,
    kPause,
    kRest,  // gives its bucket IDs back until it is used again
    kEnd,
    kAbandon,  // of a step: it cannot be complete on every rank; the plan starts anew
    kFree,     // it has ended, and its bucket IDs can be used for others
    kForget,   // no rank has a graph of it any more
  };
  std::string hash;
  Kind kind = kWait;
  // Of kCommit, kRebuild: the first iteration that is planned so; of kPause, kRest: the first that
  // is not planned.
  std::uint64_t from_iteration = 0;
  std::string reason;  // of kWait, kPause, kRest, kEnd, kForget of a call that not all ranks have
  std::vector<std::int64_t> times;  // of kRebuild, as in the vote of the first rank
  BucketLimits limits;
  // Of kCommit, by slot; empty: all tensors are in main memory. Equal ones are the same object.
  SharedDevices devices;
  // Of kCommit: slots that any rank leaves out.
  std::set<int> left_out;
  // A rank has left its step, and others may be about to.
  bool any_has_left = false;
  // Of kAbandon: the slots that are missing, by the rank that has left its step without them; and
  // whether some rank has not left it, whose step fails.
  std::map<int, std::vector<int>> missing;
  bool fails_step = false;
  // Of kEnd and kAbandon: how often each bucket was complete on every rank, how often on any, and how often on
  // every rank of the group.
  std::vector<std::uint64_t> everywhere, anywhere, in_group;
  // Of kWait: the plan can rest instead, and for how long rank 0 has not needed it.
  bool may_rest = false;
  std::int64_t idle_ms = 0;
};

std::string ToRow(const std::vector<Vote>& votes);
std::vector<Vote> FromRow(const std::string& row);

// How often each bucket of each plan, by hash, was complete on every rank; only of plans that all
// ranks have.
std::map<std::string, std::vector<std::uint64_t>> CompletionsEverywhere(const TextByRank& rows);

// One decision a plan, ordered by hash; `rows` by rank, of all ranks that it concerns. `group`: the
// ranks that this one shares memory with, empty: all; only `in_group` differs from group to group.
std::vector<Decision> Decide(const TextByRank& rows, const std::set<int>& group = {});

}  // namespace horovod_opt
