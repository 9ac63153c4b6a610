// Global sleep: which cycles of mode gs sleep globally, and how long (modes/gs.h says why).
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
