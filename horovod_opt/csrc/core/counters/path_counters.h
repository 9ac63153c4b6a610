// Statistics counters of the planned path: what it has done, and what its threads have cost.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "horovod_opt/csrc/core/counters/thread_usage.h"

namespace horovod_opt {

// Written and read by any threads, at any time.
class PathCounters {
 public:
  struct Values {
    std::int64_t iterations;
    std::int64_t buckets;
    std::int64_t bytes;
    std::int64_t wakeups;
    std::int64_t rounds;            // of negotiation, that a rank asked for
    std::int64_t steady_rounds;     // of those, from the first to the last iteration since a vote
    std::int64_t agreements;        // between groups on what is ready
    std::chrono::nanoseconds data;  // reducing, waits for other ranks included
    std::chrono::nanoseconds latency;  // sum over buckets, from a rank's last arrival to its end
  };

  Values Read() const;
  ThreadUsage Usage() const;  // of all threads that have called BeginThread()

  // The rest is for the writers.
  void BeginThread();
  void EndThread();
  void AddBucket(std::int64_t bytes, std::chrono::nanoseconds data,
                 std::chrono::nanoseconds latency);
  void AddIteration() {
    Add(iterations_, 1);
    if (!steady_.exchange(true)) rounds_before_.store(Load(rounds_), std::memory_order_relaxed);
    steady_rounds_.store(Load(rounds_) - Load(rounds_before_), std::memory_order_relaxed);
  }
  void AddWakeups(std::int64_t wakeups) { Add(wakeups_, wakeups); }
  void AddRound() { Add(rounds_, 1); }
  void AddAgreement() { Add(agreements_, 1); }
  void AddVote() { steady_ = false; }
  // Before the thread starts.
  void Reset();

 private:
  using Counter = std::atomic<std::int64_t>;
  static void Add(Counter& counter, std::int64_t amount) {
    counter.fetch_add(amount, std::memory_order_relaxed);
  }

  static std::int64_t Load(const Counter& counter) {
    return counter.load(std::memory_order_relaxed);
  }

  Counter iterations_{0}, buckets_{0}, bytes_{0}, wakeups_{0}, data_{0}, latency_{0};
  Counter rounds_{0}, rounds_before_{0}, steady_rounds_{0}, agreements_{0};
  std::atomic<bool> steady_{false};  // there was an iteration since the last vote
  mutable std::mutex mutex_;         // protects the rest; no thread can end while it is held
  std::vector<pid_t> threads_;
  ThreadUsage past_usage_;  // of the threads that have ended
};

}  // namespace horovod_opt
