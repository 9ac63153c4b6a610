// A sleep by the monotonic clock, clock_nanosleep(2).
#pragma once

#include <errno.h>
#include <time.h>

#include <chrono>
#include <cstdint>

namespace horovod_opt {

// Sleeps at least `length`, signals or not, and returns how long it really was; zero and less
// return at once. Linux adds the thread's timer slack (50 us by default, PR_SET_TIMERSLACK), in
// which it gathers timers that are due at about the same time, and the time until the thread runs
// again: a sleep of 20 us lasts some 75 to 90 us.
inline std::chrono::nanoseconds SleepFor(std::chrono::nanoseconds length) {
  constexpr std::int64_t kSecond = 1'000'000'000;  // ns
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * kSecond + time.tv_nsec;
  };
  if (length.count() <= 0) return std::chrono::nanoseconds::zero();
  const std::int64_t start = now();
  const std::int64_t end = start + length.count();
  const timespec wake{static_cast<time_t>(end / kSecond), static_cast<long>(end % kSecond)};
  // An absolute time: what a signal interrupts continues to the same end, without drift.
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) == EINTR) {
  }
  return std::chrono::nanoseconds(now() - start);
}

}  // namespace horovod_opt
