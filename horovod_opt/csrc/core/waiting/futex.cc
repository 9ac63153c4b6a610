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

// Without FUTEX_PRIVATE_FLAG, so that the kernel identifies the word by the memory behind it and
// not by its address in one process.
long Call(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
          const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                 nullptr, 0);
}

}  // namespace

bool Wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
          std::chrono::nanoseconds timeout) {
  timespec length;
  if (timeout != kForever) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    length.tv_sec = static_cast<time_t>(seconds.count());
    length.tv_nsec = static_cast<long>((timeout - seconds).count());
  }
  if (Call(word, FUTEX_WAIT, expected, timeout == kForever ? nullptr : &length) == 0) return true;
  if (errno == EINTR || errno == ETIMEDOUT) return true;
  if (errno == EAGAIN) return false;
  throw std::system_error(errno, std::generic_category(), "futex wait");
}

void WakeAll(std::atomic<std::uint32_t>& word) { Call(word, FUTEX_WAKE, INT_MAX, nullptr); }

}  // namespace futex
}  // namespace horovod_opt
