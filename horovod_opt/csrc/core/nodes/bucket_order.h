// In which order the ranks of several groups perform their buckets, without negotiation: one rank
// of each group, its leader, agrees with the others on what is ready everywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "horovod_opt/csrc/core/shm/ready_queue.h"

namespace horovod_opt {

// Reads what is ready on the leader's group from one ready queue and appends what is ready on all
// groups to another, which the ranks of the group perform.
//
// A leader takes part in a bitwise AND of what each of them has ready as soon as it has something;
// until then the others wait for it asleep. What all have is appended, in the order of bucket IDs,
// which is that of the plan.
//
// Invariants:
// 1. All leaders append the same: the result of an AND is the same everywhere, and each takes part
//    in each.
// 2. What is appended is ready on every rank of every group, so it can be performed to the end
//    whatever else happens, a shutdown included.
// 3. No two leaders wait for each other: one that has a bucket which is not appended yet takes part
//    in every AND, again and again. (Taking part only when another bucket is ready would deadlock:
//    one leader has 3 and 5; the other has 5, and will have 3 only after 5 has been performed.)
// 4. After Finish() on all of them, all leave after the same AND: the first in which any has ended.
class BucketOrder {
 public:
  // The bitwise AND over the leaders, in place. False if they cannot be reached any more.
  using And = std::function<bool(std::vector<std::uint64_t>& words)>;

  BucketOrder(ReadyQueue& ready, ReadyQueue& order, And over_leaders);

  // Returns when the end is agreed on, or when the leaders cannot be reached: false.
  bool Run();

  // Run() is to return; any thread. The other leaders are to end, too.
  void Finish();

 private:
  // Waits until a bucket is ready, or for the end.
  void Collect();

  ReadyQueue& ready_;
  ReadyQueue& order_;
  const And and_;
  std::vector<std::uint64_t> pending_;  // ready here and not appended: a bit a bucket ID
  int pending_count_ = 0;
  std::uint64_t position_ = 0;  // in ready_
  std::atomic<bool> end_{false};
  WaitCounts waits_;
};

}  // namespace horovod_opt
