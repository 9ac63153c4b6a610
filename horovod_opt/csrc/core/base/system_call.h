// What calls of the system need.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <system_error>

namespace horovod_opt {
namespace system_call {

[[noreturn]] inline void Fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// For poll() and epoll_wait(), rounded up; -1: forever.
inline int MillisecondsUntil(std::chrono::steady_clock::time_point deadline) {
  using Clock = std::chrono::steady_clock;
  if (deadline == Clock::time_point::max()) return -1;
  const auto left = deadline - Clock::now();
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(milliseconds, 0, 1 << 30));
}

}  // namespace system_call
}  // namespace horovod_opt
