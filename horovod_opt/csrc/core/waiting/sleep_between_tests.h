// Mode nbcs waits for a nonblocking collective by testing it: time inside MPI stays short, and the
// core is free for the framework's threads in between (dissertation 6.3.2).
#pragma once

#include <chrono>
#include <cstdint>

#include "horovod_opt/csrc/core/waiting/backoff.h"

namespace horovod_opt {

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
