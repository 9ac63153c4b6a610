// How all ranks decide together when a plan becomes active and when it ends.
//
// In a round of negotiation in which any rank asks for it, every rank holds back its arrivals,
// tells what it knows of each plan, and hears the others. Each derives the same decisions from the
// same rows, so nobody has to be told.
//
// Invariants:
// 1. All rows are taken while no arrival is let through, so `begun` is still true when the decision
//    is applied. (Otherwise a rank could send a tensor of pass n the old way while others expect it
//    the new way.)
// 2. A switch takes effect in the pass after the last one that any rank has begun: no pass is ever
//    split between the lanes.
// 3. A plan becomes active only if every rank has it and its first passes went as planned everywhere.
//    A rank that has joined says so of no plan: it would never send its tensors. The same tensors
//    are on GPUs everywhere, so that every rank reduces them in the same way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace horovod_opt {

enum class Stand {
  kCaptured,  // its first passes are not over on this rank
  kReady,     // its first passes were as planned
  kActive,
  kPausing,  // active, and this rank has joined
  kEnding,   // active, and this rank wants it to end
  kFailed,   // cannot be planned
};

// What one rank says about one plan.
struct Statement {
  std::string hash;
  Stand stand = Stand::kCaptured;
  std::uint64_t begun = 0;          // passes begun on this rank
  std::string reason;               // of kEnding and kFailed
  std::vector<std::int64_t> times;  // us after the start of a pass, by slot; empty: no new cut
  std::vector<int> gpu_slots;       // whose tensors are on a GPU
};

// What all ranks do about one plan.
struct Decision {
  enum Kind { kWait, kCommit, kRecut, kPause, kEnd, kReject };
  std::string hash;
  Kind kind = kWait;
  std::uint64_t from_pass = 0;      // of kCommit, kRecut: the first; of kPause, kEnd: the first no more
  std::string reason;               // of kWait, kPause, kEnd, kReject
  std::vector<std::int64_t> times;  // of kRecut
};

std::string ToRow(const std::vector<Statement>& statements);
std::vector<Statement> FromRow(const std::string& row);

// One decision a plan, ordered by hash; `rows` by rank.
std::vector<Decision> Decide(const std::vector<std::string>& rows);

}  // namespace horovod_opt
