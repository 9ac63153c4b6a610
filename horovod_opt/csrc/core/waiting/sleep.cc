#include "horovod_opt/csrc/core/waiting/sleep.h"

#include <errno.h>
#include <time.h>

#include <cstdint>

namespace horovod_opt {
namespace {

constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;

std::int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * kNanosecondsPerSecond + time.tv_nsec;
}

std::int64_t Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Nanoseconds(now);
}

}  // namespace

std::chrono::nanoseconds SleepFor(std::chrono::nanoseconds length) {
  if (length.count() <= 0) return std::chrono::nanoseconds::zero();
  const std::int64_t start = Now();
  const std::int64_t end = start + length.count();
  const timespec wake{static_cast<time_t>(end / kNanosecondsPerSecond),
                      static_cast<long>(end % kNanosecondsPerSecond)};
  // An absolute time: what a signal interrupts continues to the same end, without drift.
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) == EINTR) {
  }
  return std::chrono::nanoseconds(Now() - start);
}

}  // namespace horovod_opt
