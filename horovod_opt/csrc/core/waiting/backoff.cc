#include "horovod_opt/csrc/core/waiting/backoff.h"

#include <sched.h>

#include "horovod_opt/csrc/core/waiting/sleep.h"

namespace horovod_opt {

Backoff::Backoff(std::int64_t yields, std::chrono::microseconds first,
                 std::chrono::microseconds max)
    : yields_(yields), first_(first), max_(max), yields_left_(yields), next_(first) {}

std::chrono::microseconds Backoff::Pause() {
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

void Backoff::Reset() {
  yields_left_ = yields_;
  next_ = first_;
}

}  // namespace horovod_opt
