// getrusage(2) and proc(5): what a thread or the process has cost.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

namespace horovod_opt {

struct ThreadUsage {
  std::chrono::nanoseconds user{0};
  std::chrono::nanoseconds system{0};
  std::int64_t voluntary_switches = 0;
  std::int64_t involuntary_switches = 0;

  ThreadUsage& operator+=(const ThreadUsage& other) {
    user += other.user;
    system += other.system;
    voluntary_switches += other.voluntary_switches;
    involuntary_switches += other.involuntary_switches;
    return *this;
  }
};

// Of any thread of this process, from /proc; times in steps of a clock tick (usually 10 ms). Throws
// std::system_error (ESRCH) when the thread has ended.
ThreadUsage ReadThreadUsage(pid_t tid);

// Of the calling thread, exact.
ThreadUsage ReadOwnThreadUsage();

// Of all threads of the process together, those that have ended included.
ThreadUsage ReadProcessUsage();

}  // namespace horovod_opt
