// futex(2): sleeping until another thread or process changes a word. It also works between
// processes that map the word at different addresses.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace horovod_opt {
namespace futex {

constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

// Who sleeps: a bit for some, or all bits.
using Sleepers = std::uint32_t;
constexpr Sleepers kAll = ~Sleepers{0};

// Sleeps if `word` is still `expected`, until Wake() of one of `who`, a signal, or `timeout` has
// passed. Returns whether it slept. Nothing is implied about the word afterwards: the caller looks
// again. Throws std::system_error if the word cannot be waited on.
bool Wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
          std::chrono::nanoseconds timeout, Sleepers who = kAll);

// Wakes everyone who sleeps on `word` and has one of these bits.
void Wake(std::atomic<std::uint32_t>& word, Sleepers who = kAll);

}  // namespace futex
}  // namespace horovod_opt
