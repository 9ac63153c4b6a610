// Exponential backoff: how a thread waits between two tests of something that another rank
// completes.
#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>

#include "horovod_opt/csrc/core/waiting/sleep.h"

namespace horovod_opt {

// First gives the core away `yields` times, then sleeps `first`, 2 * `first`, ... up to `max`:
// the end of a short wait is noticed early, a long wait costs few wake-ups. The constant sleep of
// the dissertation (6.3.2) is first == max. For one thread.
class Backoff {
 public:
  // yields >= 0, 1 us <= first <= max.
  Backoff(std::int64_t yields, std::chrono::microseconds first, std::chrono::microseconds max)
      : yields_(yields), first_(first), max_(max), yields_left_(yields), next_(first) {}

  // Pauses once. Returns the sleep it asked for, zero when it only yielded.
  std::chrono::microseconds Pause() {
    if (yields_left_ > 0) {
      --yields_left_;
      sched_yield();
      return std::chrono::microseconds::zero();
    }
    const std::chrono::microseconds length = next_;
    next_ = length > max_ / 2 ? max_ : 2 * length;
    slept_ += SleepFor(length);
    return length;
  }

  // The next Pause() is the first of a new wait.
  void Reset() {
    yields_left_ = yields_;
    next_ = first_;
  }

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

// Mode nbcs waits for a nonblocking collective by testing it: time inside MPI stays short, and the
// core is free for the framework's threads in between (dissertation 6.3.2).
struct PollResult {
  std::int64_t tests = 0;
  std::chrono::nanoseconds slept{0};
};

// Calls done() until it returns true and pauses in between; what is already done costs one test
// and no pause. What done() throws reaches the caller.
template <class Test>
PollResult PollUntil(Test&& done, Backoff& backoff) {
  backoff.Reset();
  const auto slept_before = backoff.Slept();
  std::int64_t tests = 1;
  for (; !done(); ++tests) backoff.Pause();
  return {tests, backoff.Slept() - slept_before};
}

}  // namespace horovod_opt
