// Total order by bitwise AND: in which order the ranks of several groups perform their buckets,
// without negotiation: one rank of each group, its leader, agrees with the others on what is ready
// everywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"

namespace horovod_opt {

// Runs on the leader. Reads from one ready queue which buckets are ready in its group, and appends
// those that are ready in all groups to another ready queue, whose order the ranks of the group
// follow.
//
// The leaders meet in one bitwise AND after the other, of a bit for each bucket ID: is the bucket
// ready in my group? A leader comes as soon as it has such a bucket; the others, which have come
// before, sleep until then. The buckets whose bits are left are ready in all groups. They are
// appended in the order of their IDs, which within a plan is the plan's order.
//
// Invariants:
// 1. All leaders append the same: every leader takes part in every AND, and its result is the same
//    for all of them.
// 2. What is appended is ready on every rank of every group, so it can be performed to the end
//    whatever else happens, a shutdown included.
// 3. No two leaders wait for each other: as long as a leader has a bucket that is not appended, it
//    takes part in the next AND, also if nothing new is ready in its group. (If it waited for
//    another bucket, this would be a deadlock: one leader has 3 and 5, the other has 5, and has 3
//    only after 5 has been performed. Then it meets nobody: the first one has nothing new.)
// 4. After Close() on all of them, all leave after the same AND: the first in which any has ended.
class HorovodOpsOrder {
 public:
  // The bitwise AND over the leaders, in place. False if they cannot be reached any more.
  using And = std::function<bool(std::vector<std::uint64_t>& words)>;

  HorovodOpsOrder(ReadyQueue& ready, ReadyQueue& order, And over_leaders);

  // Returns when the end is agreed on, or when the leaders cannot be reached: false.
  bool Run();

  // Run() is to return; any thread. The other leaders are to end, too.
  void Close();

 private:
  // Waits until a bucket is ready, or for the end.
  void Collect();

  ReadyQueue& ready_;
  ReadyQueue& order_;
  const And and_;
  std::vector<std::uint64_t> pending_;  // a bit for each bucket ID: ready here, not appended
  int pending_count_ = 0;
  std::uint64_t position_ = 0;  // in ready_
  std::atomic<bool> end_{false};
  WaitCounts waits_;
};

}  // namespace horovod_opt
