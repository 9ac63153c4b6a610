// How long the background thread sleeps between two cycles in mode gs (global sleep).
//
// A rank that wakes late makes the others wait for it in the negotiation. Their cycle then took
// longer than the cycle time, so they do not sleep before the next one, while the late rank does
// and is late again. Sleeping the minimum over all ranks ends this after at most `interval`
// cycles (dissertation 6.2.4 and 6.3.1, figures 6.9 and 6.11).
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace horovod_opt {

class GlobalSleep {
 public:
  // interval >= 1, in cycles, equal on all ranks.
  explicit GlobalSleep(std::int64_t interval) : interval_(interval) {}

  // Returns how long to sleep now, never negative. `local` is the cycle time minus what the
  // previous cycle took. On every interval-th call, the first included, the answer is
  // min_over_ranks(max(local, 0)), a collective: all ranks must call Next() equally often.
  template <class MinOverRanks>
  std::chrono::nanoseconds Next(std::chrono::nanoseconds local, MinOverRanks&& min_over_ranks) {
    local = std::max(local, std::chrono::nanoseconds::zero());
    const bool global = cycle_ == 0;
    cycle_ = (cycle_ + 1) % interval_;
    return global ? min_over_ranks(local) : local;
  }

 private:
  std::int64_t interval_;
  std::int64_t cycle_ = 0;  // since the last global sleep
};

}  // namespace horovod_opt
