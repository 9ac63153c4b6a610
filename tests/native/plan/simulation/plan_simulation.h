// All ranks of a job in one thread: their PlanTables, a ready queue in place of the shared one, a
// negotiated path, joins and votes, in an order drawn from a seed.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {

// What a framework's thread hands over here: which tensor of which iteration it is.
struct Tensor : Arrival {
  Tensor(int plan_of, int slot_of, std::uint64_t iteration_of, int epoch_of)
      : plan(plan_of), slot(slot_of), iteration(iteration_of), epoch(epoch_of) {}
  const int plan, slot;
  const std::uint64_t iteration;  // as the program counts
  const int epoch;
};

class PlanSimulation {
 public:
  static constexpr int kCapacity = 256;

  struct Program {
    std::vector<Plan> plans;  // their keys differ from rank to rank
    // Framework threads; each executes its plans by turns. An iteration ends when all of it is
    // reduced.
    std::vector<std::vector<int>> threads;
    // By epoch and rank: iterations that each thread executes before the rank joins.
    std::vector<std::vector<int>> iterations;
    bool rebuilt = false;
    int without_plan = -1;  // this rank is never told of plan 0
    // Each happens once, at a random moment.
    std::vector<std::pair<int, std::function<void(PlanTable&)>>> disturbances;  // by rank
    // Steps until all of them have happened, about.
    int disturbed_for = 2000;
    // In which of its iterations a rank sends slot 0 of plan 0 with another size; 0: never.
    std::vector<std::uint64_t> different;
    // Graphs come and go: between two iterations, once in so many times; 0: never.
    int retraces = 0;
    int capacity = kCapacity;
    std::chrono::seconds idle{0};  // what the ranks believe to have passed at a vote
  };

  static std::int64_t Key(int rank, int plan, int slot) { return 1 + rank + 100 * plan + slot; }

  PlanSimulation(Program program, std::uint32_t seed);

  // Until every rank has executed its program. Fails the test if a rule is broken or nothing
  // goes on.
  void Run();

  int PlannedIterations(int plan, int epoch) const;  // iterations with a planned tensor
  int BucketIds(int plan) const;                     // different ones that were reduced
  PlanTable& plans(int rank) { return ranks_[rank]->plans; }
  const std::vector<std::string>& rejected() const { return rejected_; }

 private:
  enum class Sent { kNot, kYes, kReduced };
  struct Thread {
    int executed = 0;  // in this epoch
    bool running = false;
    std::vector<Sent> slots;
  };
  struct Rank {
    Rank(int capacity, std::function<void(const Work&)> ready)
        : plans(capacity, std::move(ready), [] {}) {}
    PlanTable plans;
    std::vector<Thread> threads;
    std::vector<bool> added;
    std::vector<int> graph;  // by plan: number of the one that shows its keys
    std::vector<std::vector<std::uint64_t>> arrivals;         // by plan, slot; this epoch
    std::map<std::pair<int, int>, std::uint64_t> negotiated;  // plan, slot -> iteration
    std::size_t entries_read = 0;                             // entries of the ready queue
    std::size_t finished = 0;
    Work work;
    std::vector<int> readies, takes;  // by bucket ID
    bool joined = false;
    int epoch = 0;
    std::string row;
    bool took_part = false;  // in the current phase
  };
  enum class Phase { kNegotiation, kRows, kDecisions, kRestart };

  void Step(int rank);
  void Framework(int rank);
  void Send(int rank, int thread, int slot);
  Plan Own(int rank, int plan) const;
  void PlannedPath(int rank);
  void Check(int rank, const Work& work, std::size_t position);
  void Background(int rank);
  void Begin(Phase phase);
  void Negotiate();
  void TakesLane(const Tensor& tensor, Route route);
  void Reduced(int rank, int plan, int slot);
  bool TookPart() const;
  bool AllJoined() const;
  bool Over() const;
  int PlanOf(const Thread& thread, std::size_t index) const;
  int Below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  const Program program_;
  Random random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  Phase phase_ = Phase::kNegotiation;
  std::size_t disturbances_ = 0;  // that have happened
  std::vector<int> queue_;
  std::vector<int> calls_;  // of `ready`, by bucket ID
  std::vector<std::tuple<std::string, std::uint64_t, std::vector<int>>> reduced_;  // by entry
  std::map<std::size_t, std::uint64_t> iterations_;  // of the tensors, by entry
  std::map<std::tuple<int, int, std::uint64_t, int>, Route>
      routes_;  // plan, epoch, iteration, slot
  std::vector<std::string> rejected_;
};

}  // namespace horovod_opt
