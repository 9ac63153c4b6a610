// Bucketed allreduce, of the buckets of active plans: by a thread that takes them in the order of
// the group's queue and reduces them, or hands them to Horovod's own operations
// (horovod_ops_gpu.h). Small buckets of one group are reduced by the framework's thread that
// completes them on the last rank (small_bucket_path.h), those of several groups as
// internode_buckets.h says.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "horovod/common/common.h"
#include "horovod_opt/csrc/binding/reduction/horovod_ops_gpu.h"
#include "horovod_opt/csrc/binding/reduction/node_memory.h"
#include "horovod_opt/csrc/core/counters/path_counters.h"
#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/network/progress_engine.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/reduction/internode_buckets.h"
#include "horovod_opt/csrc/core/reduction/small_buckets.h"

namespace horovod {
namespace common {
class Controller;
class Timeline;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

class PlannedPath {
 public:
  // Between the groups of ranks.
  struct Network {
    std::unique_ptr<Transport> transport;
    std::int64_t memory = 0;  // of ProgressEngine
    int group = 0, groups = 1;
    std::vector<int> all_ranks;  // the ranks of all groups, one group after the other
    // Gets what another group has taken back. Any thread.
    std::function<void(std::vector<ArrivalPtr> arrivals)> give_back;
    // Gets what another group rings the doorbell with. A thread of the path.
    std::function<void(std::uint64_t number)> hear;
  };

  // Of the ranks of `controller`. `network`: without a transport if there is one group.
  // `horovod_ops`: nullptr if Horovod's own perform none of the buckets. `cpus`: where the thread
  // runs; empty:
  // where the one that makes it does.
  PlannedPath(const horovod::common::Controller& controller, horovod::common::Timeline& timeline,
              PlanTable& plans, NodeMemory& node, Network network, HorovodOps* horovod_ops,
              PathCounters& counters, std::vector<int> cpus);
  // Ends the threads, in the middle of a bucket if the other ranks do not come. No thread of a
  // framework comes any more: PlanTable::Finish().
  ~PlannedPath();
  PlannedPath(const PlannedPath&) = delete;
  PlannedPath& operator=(const PlannedPath&) = delete;

  // A bucket is complete on this rank. Any thread, under locks of PlanTable.
  void Announce(const Work& work);

  // Messages between this rank and those with its number in the other groups; nullptr: there are
  // none.
  ProgressEngine* engine() { return engine_.get(); }

  // Returns when these buckets, which are complete on all ranks, are reduced. Not longer than
  // `patience`: a rank may have died.
  void Await(const std::vector<int>& bucket_ids, std::chrono::seconds patience) const;
  // Reduces what is in the ready queue, to which no rank adds any more, and ends the thread. Not
  // longer than `patience`.
  void Finish(std::chrono::seconds patience);

  // What its threads do, and what is on its way between nodes. Any thread.
  void DumpState(StatePage& page) const;
  // How many ranks have a bucket that is complete on this one.
  std::string DescribeReadiness(int bucket_id) const;

  // Why the path stands still: what this rank was about to reduce when the ranks found that they
  // differ, that it cannot reach the others, or that something else went wrong. Empty: it does not.
  std::string Failure() const;

 private:
  using Clock = PlanTable::Clock;

  void Run();
  void Settle() const;
  // These return false if the path stands still from now on.
  bool Take(int entry, WaitCounts& waits);
  bool Perform(int entry, WaitCounts& waits);
  bool PerformInternode(int entry, WaitCounts& waits);
  // The bucket is one for internode_.
  bool IsInternode(const PlannedBucket& bucket) const;
  static void CallBack(const Work& work, const horovod::common::Status& status);
  // `status`: what the tensors of the bucket get.
  bool Move(const Work& work, horovod::common::Status& status, WaitCounts& waits);
  bool Allreduce(const Work& work, WaitCounts& waits);
  // What the tensors of the bucket get. The first: the ranks were about to reduce different ones.
  horovod::common::Status Differs(const std::string& bucket);
  horovod::common::Status Failed(const std::exception& problem, const std::string& bucket);
  void Fail(std::string failure);
  void EndInternode(Work work, InternodeBuckets::Outcome outcome, Clock::time_point start);
  SmallBuckets::Binding SmallBucketBinding();
  InternodeBuckets::Binding InternodeBinding(Network& network);

  horovod::common::Timeline& timeline_;
  PlanTable& plans_;
  NodeMemory& node_;
  HorovodOps* const horovod_ops_;
  PathCounters& counters_;
  const std::vector<int> cpus_;
  const int rank_, ranks_;
  std::atomic<bool> end_{false};   // at the end of the ready queue
  std::atomic<bool> stop_{false};  // at once
  std::atomic<bool> failed_{false};
  // What the thread has taken from the ready queue and not done, and since when it reduces it, for
  // DumpState().
  std::atomic<int> entry_{kNoBucket};
  std::atomic<Clock::time_point> entry_since_{};
  std::string failure_;  // written before failed_ is set
  mutable std::mutex failure_mutex_;
  SmallBuckets small_buckets_;
  std::unique_ptr<ProgressEngine> engine_;
  std::unique_ptr<InternodeBuckets> internode_;
  std::promise<void> thread_end_;
  std::thread thread_;
};

}  // namespace horovod_opt
