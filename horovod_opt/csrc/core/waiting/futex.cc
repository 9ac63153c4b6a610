#include "horovod_opt/csrc/core/waiting/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <system_error>

namespace horovod_opt {
namespace futex {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel reads the word itself");

constexpr std::int64_t kSecond = 1000000000;  // ns

// Without FUTEX_PRIVATE_FLAG, so that the kernel identifies the word by the memory behind it and
// not by its address in one process.
long Call(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
          const timespec* deadline, Sleepers who) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, deadline,
                 nullptr, who);
}

// FUTEX_WAIT_BITSET has a deadline by the monotonic clock.
timespec After(std::chrono::nanoseconds timeout) {
  timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  const std::int64_t nanoseconds = deadline.tv_nsec + timeout.count() % kSecond;
  deadline.tv_sec += static_cast<time_t>(timeout.count() / kSecond + nanoseconds / kSecond);
  deadline.tv_nsec = static_cast<long>(nanoseconds % kSecond);
  return deadline;
}

}  // namespace

bool Wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
          std::chrono::nanoseconds timeout, Sleepers who) {
  if (timeout < timeout.zero()) {
    throw std::system_error(EINVAL, std::generic_category(), "futex wait");
  }
  timespec deadline{};
  if (timeout != kForever) deadline = After(timeout);
  const timespec* const until = timeout == kForever ? nullptr : &deadline;
  if (Call(word, FUTEX_WAIT_BITSET, expected, until, who) == 0) return true;
  if (errno == EINTR || errno == ETIMEDOUT) return true;
  if (errno == EAGAIN) return false;
  throw std::system_error(errno, std::generic_category(), "futex wait");
}

void Wake(std::atomic<std::uint32_t>& word, Sleepers who) {
  Call(word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, who);
}

}  // namespace futex
}  // namespace horovod_opt
