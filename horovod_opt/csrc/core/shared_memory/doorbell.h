// Doorbell: one rank of a node tells the others that it wants a round of negotiation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// Lives in zeroed shared memory, aligned to 64. Rounds are numbered from 1; any thread of any rank
// may call anything.
class Doorbell {
 public:
  // Round `round`, and all before it, are wanted. Costs one load if that is known already. True for
  // the one who says it first.
  bool Signal(std::uint64_t round) {
    std::uint64_t requested = requested_.load();
    do {
      if (requested >= round) return false;
    } while (!requested_.compare_exchange_weak(requested, round));
    changed_.Notify();
    return true;
  }

  // True once `round` is wanted; false when `timeout` has passed or `stop` is set, which is noticed
  // after Kick(), and without it within 100 ms. A timeout of zero only looks.
  bool Wait(std::uint64_t round, std::chrono::nanoseconds timeout, const std::atomic<bool>& stop) {
    const auto is_requested = [&] { return requested_.load() >= round; };
    if (timeout <= timeout.zero()) return is_requested();
    WaitCounts counts;
    return changed_.Await(is_requested, stop, counts, EventCount::kLongestSleep, After(timeout));
  }

  // The last round that is wanted.
  std::uint64_t Requested() const { return requested_.load(); }

  // Makes all who wait look at `stop`.
  void Kick() { changed_.Kick(); }

 private:
  static EventCount::Clock::time_point After(std::chrono::nanoseconds timeout) {
    const auto now = EventCount::Clock::now();
    const auto latest = EventCount::Clock::time_point::max();
    return timeout < latest - now ? now + timeout : latest;
  }

  EventCount changed_;
  alignas(64) std::atomic<std::uint64_t> requested_{0};
};

}  // namespace horovod_opt
