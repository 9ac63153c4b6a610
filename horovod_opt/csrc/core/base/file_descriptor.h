// File descriptors (POSIX), and what the calls that take one need: an owner, errors, timeouts.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace horovod_opt {

// With an owner, who closes it. Move-only.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }

  int number() const { return number_; }  // negative: none

 private:
  int number_;
};

namespace system_call {

[[noreturn]] inline void Fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// For poll() and epoll_wait(), rounded up; -1: forever.
inline int MillisecondsUntil(std::chrono::steady_clock::time_point deadline) {
  using Clock = std::chrono::steady_clock;
  if (deadline == Clock::time_point::max()) return -1;
  const auto remainder = deadline - Clock::now();
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(remainder).count();
  return static_cast<int>(std::clamp<std::int64_t>(milliseconds, 0, 1 << 30));
}

}  // namespace system_call

}  // namespace horovod_opt
