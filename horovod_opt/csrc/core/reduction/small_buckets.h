// Allreduce of small buckets by who completes them: the framework's threads contribute them, and
// the last rank's thread adds them up at once (small_bucket_path.h).
//
// The thread of another rank spins for the last one for up to kSpin, if that has not been in vain
// lately. Of two dependent buckets each then costs what it takes to add it up, where two threads
// would have to wake each other: the one of the planned path, and then one of the framework.
//
// Invariants:
// 1. A bucket that MayPerform(), or that Spin() has seen complete, is whole in the memory: whoever
//    performs it waits for nobody. So a framework's thread never waits for another rank but in
//    Spin(), which ends.
// 2. The ready queue has an entry for it all the same, which the other ranks need. On this rank the
//    thread of the planned path comes across it later, and passes it by (PlanTable::Take()). It may
//    lag behind, but never so far that the queue overtakes it.
// 3. When Close() has returned, no framework's thread is in the memory of the group, which may be
//    unmapped, or in this object, which may be deleted. PlanTable has finished before, so none comes
//    again. A thread is counted in `performing_` from when it holds PlanTable's lock until there is
//    nothing left that it does here; it calls back after that, since the framework may take any time
//    for it, or wait for the shutdown.
// 4. From Count() on, either the thread of the planned path is woken for the bucket, or a thread
//    spins for it, until it has added it up. One that spins in vain makes up for it (ready_queue.h,
//    invariant 5). One thread of a rank spins at a time. The last rank performs the bucket, or
//    wakes its thread by Append().
// 5. Whoever spins holds no lock, so a vote may take the bucket back, or the thread of the planned
//    path may perform it. A bucket is only performed if it is still the one of that turn; who takes
//    it is decided under the mutex of its plan, and the thread passes by what has been performed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/reduction/small_bucket_path.h"
#include "horovod_opt/csrc/core/report/state_page.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_places.h"
#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"
#include "horovod_opt/csrc/core/waiting/spin_history.h"

namespace horovod_opt {

class SmallBuckets : public SmallBucketPath {
 public:
  using Clock = std::chrono::steady_clock;

  // By the framework's thread that performs a bucket.
  struct Binding {
    std::function<void(const Work& work)> begins;
    // Returns what the tensors get instead of their sums.
    std::function<std::string(const Work& work, const std::exception& problem)> failed;
    std::function<void(const Work& work)> ends;
    // Touches nothing that is gone after Close(). `error`: empty: the tensors have their sums.
    std::function<void(const Work& work, const std::string& error)> call_back;
  };

  // About what it takes to wake two threads one after the other.
  static constexpr std::chrono::nanoseconds kSpin = std::chrono::microseconds(50);

  // `rank`, `ranks`: in the group. `spin`: how long a framework's thread spins at most.
  SmallBuckets(PlanTable& plans, PathCounters& counters, ReadyQueue& queue, BucketPlaces& places,
               int rank, int ranks, Binding binding, std::chrono::nanoseconds spin = kSpin)
      : plans_(plans),
        counters_(counters),
        queue_(queue),
        places_(places),
        rank_(rank),
        ranks_(ranks),
        binding_(std::move(binding)),
        spin_(spin),
        history_(ReadyQueue::kIds) {}

  // --- framework threads ---
  std::int64_t PlaceBytes(std::int64_t bytes) const override {
    return BucketPlaces::PlaceBytes(bytes, ranks_);
  }
  Readiness Announce(const Work& work, bool can_spin) override;
  bool MayPerform(const Work& work) override;
  void Append(int bucket_id, bool here) override;
  void Perform(Work work, bool spun) override;
  bool Spin(const Turn& turn) override;
  void EndSpin(const Turn& turn, bool in_vain) override;

  // --- any thread ---
  // Adds up the bucket, to whose place all ranks contribute. Waits for those that have not yet;
  // false if `stop` was set before.
  bool Reduce(const Work& work, const std::atomic<bool>& stop, WaitCounts& waits);

  // --- the thread of the planned path ---
  // It has come across the entry before this position of the ready queue.
  void CameTo(std::uint64_t position) { position_ = position; }
  // Buckets are performed by it alone from now on.
  void Stop() { stopped_ = true; }

  // How far the thread has come in the ready queue, and what framework threads do. Any thread.
  void DumpState(StatePage& page) const;

  // Waits for framework threads that perform a bucket, which takes no longer than adding it up.
  void Close() const;

 private:
  bool MaySpin(int bucket_id);
  void LeaveSpin(const Turn& turn, bool in_vain, bool performed);
  // The thread of the planned path is not too far behind (invariant 2).
  bool KeepsUp() const { return queue_.Size() - position_ < kMostBehind; }

  // Entries of the ready queue that the thread need not have come across. With one of each bucket
  // ID they are fewer than the queue has room for.
  static constexpr std::uint64_t kMostBehind = ReadyQueue::kEntries - ReadyQueue::kIds - 1024;

  PlanTable& plans_;
  PathCounters& counters_;
  ReadyQueue& queue_;
  BucketPlaces& places_;
  const int rank_;
  const int ranks_;
  const Binding binding_;
  const std::chrono::nanoseconds spin_;
  std::atomic<std::uint64_t> position_{0};
  std::atomic<int> performing_{0};  // threads that spin or perform: invariant 3
  std::atomic<bool> stopped_{false};
  std::atomic<bool> spinning_{false};
  std::vector<SpinHistory> history_;  // by bucket ID
};

}  // namespace horovod_opt
