// How a thread waits between two tests of something that another rank completes.
#pragma once

#include <chrono>
#include <cstdint>

namespace horovod_opt {

// First gives the core away `yields` times, then sleeps `first`, 2 * `first`, ... up to `max`:
// the end of a short wait is noticed early, a long wait costs few wake-ups. The constant sleep of
// the dissertation (6.3.2) is first == max. For one thread.
class Backoff {
 public:
  // yields >= 0, 1 us <= first <= max.
  Backoff(std::int64_t yields, std::chrono::microseconds first, std::chrono::microseconds max);

  // Pauses once. Returns the sleep it asked for, zero when it only yielded.
  std::chrono::microseconds Pause();

  // The next Pause() is the first of a new wait.
  void Reset();

  // Time asleep in all waits, as measured: more than was asked for.
  std::chrono::nanoseconds Slept() const { return slept_; }

 private:
  std::int64_t yields_;
  std::chrono::microseconds first_;
  std::chrono::microseconds max_;
  std::int64_t yields_left_;
  std::chrono::microseconds next_;
  std::chrono::nanoseconds slept_{0};
};

}  // namespace horovod_opt
