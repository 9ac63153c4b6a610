// Allreduce by Horovod's own operations, of planned buckets: those on GPUs, by NCCL or whatever
// Horovod was built with, and all of them if shared memory is not to be used.
//
// These operations share their communicators with the negotiated path, and some of them block. So
// one thread, the background thread, performs both, and on every rank in the same order: that of
// the ready queue, in which a round of negotiation is an entry, too. A rank that blocks in an entry
// waits for ranks that perform the same entry next or still perform earlier ones.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <vector>

#include "horovod_opt/csrc/core/counters/path_counters.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"
#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
struct ProcessSet;
struct TensorTableEntry;
class Response;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

// Upstream's function that performs a response.
using PerformOperation = void (*)(horovod::common::Response response,
                                  horovod::common::ProcessSet& process_set);

class HorovodOps {
 public:
  // `performs_all`: also what is in main memory.
  HorovodOps(horovod::common::HorovodGlobalState& horovod, PerformOperation perform,
             PlanTable& plans, PathCounters& counters, bool performs_all, bool verify);

  bool performs_all() const { return performs_all_; }
  bool Performs(const PlannedBucket& bucket) const;

  // --- the planned path's thread, in the order of the ready queue ---
  void Hand(Work work);
  void HandRound();

  // --- any thread ---
  void DumpState(StatePage& page);

  // --- the background thread ---
  // Sleeps until something is handed; false if nothing was by `deadline`.
  bool Wait(std::chrono::steady_clock::time_point deadline);
  // Performs the buckets up to the next round. True if there is a round: it is to begin now. Throws
  // std::runtime_error on every rank if they are about to reduce different buckets.
  bool PerformUntilRound();
  // A bucket is being performed; upstream asks for its tensors.
  bool IsPerforming() const { return current_ != nullptr; }
  void TakeEntries(const horovod::common::Response& response,
                   std::vector<horovod::common::TensorTableEntry>& entries);

  // What is left, at the end.
  std::vector<ArrivalPtr> Close();

 private:
  struct Item {
    bool round = false;
    Work work;  // if it is a bucket
  };

  void Add(Item item);
  void Perform(Work& work);
  void Compare(const Work& work);
  horovod::common::TensorTableEntry Zeros(const horovod::common::Response& response,
                                          std::size_t position);

  horovod::common::HorovodGlobalState& horovod_;
  const PerformOperation perform_;
  PlanTable& plans_;
  PathCounters& counters_;
  const bool performs_all_;
  const bool verify_;
  Work* current_ = nullptr;
  std::size_t next_ = 0;  // the first of its tensors that upstream has not asked for

  std::mutex mutex_;  // protects what follows
  std::deque<Item> items_;
  std::atomic<bool> waiting_{false};  // whether there are items; written under the mutex
  EventCount work_event_;
};

}  // namespace horovod_opt
