// The thread that reduces the buckets of active plans, in the order of the node's log.
#pragma once

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/core/lane_counters.h"
#include "horovod_opt/csrc/core/plan_lane.h"
#include "node_memory.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

class PlannedLane {
 public:
  // `verify`: the ranks compare the names of the tensors before each bucket.
  PlannedLane(horovod::common::HorovodGlobalState& horovod, PlanLane& plans, NodeMemory& node,
              LaneCounters& counters, bool verify);
  // Ends the thread, in the middle of a bucket if the other ranks do not come.
  ~PlannedLane();
  PlannedLane(const PlannedLane&) = delete;
  PlannedLane& operator=(const PlannedLane&) = delete;

  // What this rank was about to reduce when the ranks found that they differ; empty: they do not.
  // The lane stands still from then on.
  std::string Difference() const;

 private:
  void Run();
  void Reduce(Work work);
  std::uint64_t Tag(const Work& work) const;

  horovod::common::HorovodGlobalState& horovod_;
  PlanLane& plans_;
  NodeMemory& node_;
  LaneCounters& counters_;
  const bool verify_;
  const int ranks_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> different_{false};
  std::string difference_;  // written before different_ is set
  WaitCounts waits_;
  std::thread thread_;
};

}  // namespace horovod_opt
