// Statistics counters of the background thread: what it has done.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>

namespace horovod_opt {

// One writer, the background thread; any number of readers, at any time, without a lock on either
// side. A reader sees each counter whole, never decreasing until Reset(), and at most a moment
// late, but not all of them as of one instant: a wait may be in `wait` already and not yet in
// `poll_sleep`. Since there is one writer, an addition is a load and a store, not a
// locked instruction.
class CycleCounters {
 public:
  struct Values {
    std::int64_t cycles;
    std::int64_t cycles_slept;
    std::chrono::nanoseconds sleep;       // asleep between cycles
    std::chrono::nanoseconds wait;        // in the negotiation's collectives, waiting for peers
    std::int64_t polls;                   // tests of nonblocking collectives
    std::chrono::nanoseconds poll_sleep;  // the part of `wait` asleep between tests
    std::chrono::nanoseconds data;        // performing collectives on tensors
    std::int64_t data_bytes;
    std::int64_t steps;  // of training, negotiated: step_count.h
  };

  Values Read() const {
    using std::chrono::nanoseconds;
    return {Load(cycles_),
            Load(cycles_slept_),
            nanoseconds(Load(sleep_)),
            nanoseconds(Load(wait_)),
            Load(polls_),
            nanoseconds(Load(poll_sleep_)),
            nanoseconds(Load(data_)),
            Load(data_bytes_),
            Load(steps_)};
  }

  // The rest is for the writer.
  void AddCycle() { Add(cycles_, 1); }
  void AddSleep(std::chrono::nanoseconds length) {
    Add(cycles_slept_, 1);
    Add(sleep_, length.count());
  }
  void AddWait(std::chrono::nanoseconds length) { Add(wait_, length.count()); }
  void AddPolls(std::int64_t tests, std::chrono::nanoseconds slept) {
    Add(polls_, tests);
    Add(poll_sleep_, slept.count());
  }
  void AddData(std::chrono::nanoseconds length, std::int64_t bytes) {
    Add(data_, length.count());
    Add(data_bytes_, bytes);
  }
  void SetSteps(std::int64_t steps) { steps_.store(steps, std::memory_order_relaxed); }
  // For a new start (elastic training): before the new writer begins and after the old one ended.
  void Reset() {
    for (Counter* counter : {&cycles_, &cycles_slept_, &sleep_, &wait_, &polls_, &poll_sleep_,
                             &data_, &data_bytes_, &steps_}) {
      counter->store(0, std::memory_order_relaxed);
    }
  }

 private:
  using Counter = std::atomic<std::int64_t>;

  static std::int64_t Load(const Counter& counter) {
    return counter.load(std::memory_order_relaxed);
  }
  static void Add(Counter& counter, std::int64_t amount) {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  Counter cycles_{0};
  Counter cycles_slept_{0};
  Counter sleep_{0};  // this and all times below: ns
  Counter wait_{0};
  Counter polls_{0};
  Counter poll_sleep_{0};
  Counter data_{0};
  Counter data_bytes_{0};
  Counter steps_{0};
};

}  // namespace horovod_opt
