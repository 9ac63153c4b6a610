// Sleeping until another thread or process changes a word: futex(2), which also works between
// processes that map the word at different addresses.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace horovod_opt {
namespace futex {

constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

// Sleeps if `word` is still `expected`, until WakeAll, a signal, or `timeout` has passed. Returns
// whether it slept. Nothing is implied about the word afterwards: the caller looks again. Throws
// std::system_error if the word cannot be waited on.
bool Wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
          std::chrono::nanoseconds timeout);

// Wakes everyone who sleeps on `word`.
void WakeAll(std::atomic<std::uint32_t>& word);

}  // namespace futex
}  // namespace horovod_opt
