// The thread that reduces the buckets of active plans, in the order of the group's log, or hands
// them to those that do.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/binding/topo/cross_nodes.h"

#include "horovod_opt/csrc/core/counters/path_counters.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/binding/topo/node_memory.h"
#include "horovod_opt/csrc/binding/topo/planned_operations.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

class PlannedLane {
 public:
  // `cross` connects the groups, nullptr: there is one. `verify`: the ranks compare the names of the
  // tensors before each bucket.
  PlannedLane(horovod::common::HorovodGlobalState& horovod, PlanLane& plans, NodeMemory& node,
              CrossNodes* cross, PlannedOperations& operations, LaneCounters& counters,
              bool verify);
  // Ends the thread, in the middle of a bucket if the other ranks do not come.
  ~PlannedLane();
  PlannedLane(const PlannedLane&) = delete;
  PlannedLane& operator=(const PlannedLane&) = delete;

  // Reduces what is in the log, to which no rank adds any more, and ends the thread. Not longer than
  // `patience`: a rank may have died.
  void Finish(std::chrono::seconds patience);

  // Why the lane stands still: what this rank was about to reduce when the ranks found that they
  // differ, that it cannot reach the others, or that something else went wrong. Empty: it does not.
  std::string Failure() const;

 private:
  void Run();
  // These return false if the lane stands still from now on.
  bool Perform(int ticket);
  bool Reduce(Work work);
  horovod::common::Status Allreduce(const Work& work);
  bool IsSameEverywhere(std::uint64_t tag);
  void Fail(std::string failure);
  std::uint64_t Tag(const Work& work) const;

  horovod::common::HorovodGlobalState& horovod_;
  PlanLane& plans_;
  NodeMemory& node_;
  CrossNodes* const cross_;
  PlannedOperations& operations_;
  LaneCounters& counters_;
  const bool verify_;
  const int ranks_;
  std::atomic<bool> end_{false};   // at the end of the log
  std::atomic<bool> stop_{false};  // at once
  std::atomic<bool> failed_{false};
  std::string failure_;  // written before failed_ is set
  WaitCounts waits_;
  std::promise<void> ended_;
  std::thread thread_;
};

}  // namespace horovod_opt
