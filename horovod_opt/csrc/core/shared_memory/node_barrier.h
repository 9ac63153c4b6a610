// A counter barrier: nobody passes before all ranks of the node have arrived.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// Lives in zeroed shared memory, aligned to 64. Counts arrivals and never resets: barrier n,
// counted from 1, is open when n * ranks have arrived. Nobody arrives at n + 1 before n is open, so
// no arrival is counted for the wrong barrier.
class NodeBarrier {
 public:
  // Arrives at barrier `number` and waits for the others; each rank counts for itself: 1, 2, 3, ...
  // False if `stop` was set while somebody was missing; the barrier is of no use from then on.
  // `stop` is noticed after Kick(), and without it within 100 ms.
  bool Pass(std::uint64_t number, int ranks, const std::atomic<bool>& stop, WaitCounts& counts) {
    const std::uint64_t all = number * static_cast<std::uint64_t>(ranks);
    if (arrived_.fetch_add(1) + 1 == all) {
      opened_.Notify();
      return true;
    }
    const auto is_open = [&] { return arrived_.load() >= all; };
    return opened_.Await(is_open, stop, counts, EventCount::kLongestSleep);
  }

  // How many ranks have come to barrier `number`, as one of them sees it that is in it or was there
  // last.
  std::uint64_t Arrived(std::uint64_t number, int ranks) const {
    const std::uint64_t before = (number - 1) * static_cast<std::uint64_t>(ranks);
    return std::min<std::uint64_t>(arrived_.load() - before, static_cast<std::uint64_t>(ranks));
  }

  // Makes all who wait look at `stop`.
  void Kick() { opened_.Kick(); }

 private:
  EventCount opened_;
  alignas(64) std::atomic<std::uint64_t> arrived_{0};
};

}  // namespace horovod_opt
