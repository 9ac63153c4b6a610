// Competitive spinning (Karlin, Li, Manasse and Owicki 1991, DOI 10.1145/121132.286599): whether a
// thread that waits had better spin at first, by what came of it. It spins for about as long as a
// sleep and the way out of it take, and not if that was in vain the last times.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace horovod_opt {

// Between two looks at a word that another core may change.
inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Until done(), at most `most`. Returns whether it is done.
template <class Done>
bool SpinUntil(const Done& done, std::chrono::nanoseconds most) {
  constexpr int kPauses = 8;  // between two looks at the clock
  const auto end = std::chrono::steady_clock::now() + most;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    for (int i = 0; i < kPauses; ++i) Pause();
  }
  return true;
}

// Of waits that are alike. Any threads; that one of two at a time may be forgotten does not matter.
class SpinHistory {
 public:
  // To be asked once a wait. After n spins in vain one after the other, 2^n - 1 waits go without:
  // with many of them, one in 128 spins.
  bool Pays() {
    const std::uint8_t waits = without_.load(std::memory_order_relaxed);
    if (waits == 0) return true;
    without_.store(static_cast<std::uint8_t>(waits - 1), std::memory_order_relaxed);
    return false;
  }

  void Note(bool in_vain) {
    const std::uint8_t before = in_vain_.load(std::memory_order_relaxed);
    const int times = in_vain ? std::min(before + 1, kMost) : 0;
    in_vain_.store(static_cast<std::uint8_t>(times), std::memory_order_relaxed);
    without_.store(static_cast<std::uint8_t>((1 << times) - 1), std::memory_order_relaxed);
  }

 private:
  static constexpr int kMost = 7;

  std::atomic<std::uint8_t> in_vain_{0};  // times, since the last that was not
  std::atomic<std::uint8_t> without_{0};  // waits to come that do not spin
};

}  // namespace horovod_opt
