// The thread that takes the buckets of active plans, in the order of the group's queue, and reduces
// them or hands them to Horovod's own operations (planned_operations.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/binding/topo/cross_nodes.h"
#include "horovod_opt/csrc/binding/topo/node_memory.h"
#include "horovod_opt/csrc/binding/topo/planned_operations.h"
#include "horovod_opt/csrc/core/counters/path_counters.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod {
namespace common {
class Controller;
class Timeline;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

class PlannedPath {
 public:
  // Of the ranks of `controller`. `cross` connects the groups, nullptr: there is one. `operations`:
  // nullptr if Horovod's own perform none of the buckets. `verify`: the ranks compare the names of
  // the tensors before each bucket.
  PlannedPath(const horovod::common::Controller& controller, horovod::common::Timeline& timeline,
              PlanTable& plans, NodeMemory& node, CrossNodes* cross, PlannedOperations* operations,
              PathCounters& counters, bool verify);
  // Ends the thread, in the middle of a bucket if the other ranks do not come.
  ~PlannedPath();
  PlannedPath(const PlannedPath&) = delete;
  PlannedPath& operator=(const PlannedPath&) = delete;

  // Reduces what is in the ready queue, to which no rank adds any more, and ends the thread. Not
  // longer than `patience`: a rank may have died.
  void Finish(std::chrono::seconds patience);

  // Why the path stands still: what this rank was about to reduce when the ranks found that they
  // differ, that it cannot reach the others, or that something else went wrong. Empty: it does not.
  std::string Failure() const;

 private:
  void Run();
  // These return false if the path stands still from now on.
  bool Perform(int bucket_id);
  bool Reduce(Work work);
  // `status`: what the tensors of the bucket get.
  bool Move(Work& work, horovod::common::Status& status);
  bool Allreduce(const Work& work, std::uint64_t tag);
  bool IsSameEverywhere(std::uint64_t tag);
  void Fail(std::string failure);
  std::uint64_t Tag(const Work& work) const;

  horovod::common::Timeline& timeline_;
  PlanTable& plans_;
  NodeMemory& node_;
  CrossNodes* const cross_;
  PlannedOperations* const operations_;
  PathCounters& counters_;
  const bool verify_;
  const int rank_, ranks_;
  std::atomic<bool> end_{false};   // at the end of the ready queue
  std::atomic<bool> stop_{false};  // at once
  std::atomic<bool> failed_{false};
  std::string failure_;  // written before failed_ is set
  WaitCounts waits_;
  std::int64_t wakeups_ = 0;  // counted already
  std::promise<void> ended_;
  std::thread thread_;
};

}  // namespace horovod_opt
