// Floating-point environment (IEEE 754-2019, 4): how the processor computes on the calling thread.
// Frameworks set their threads to flush denormals to zero (TensorFlow its thread pools', PyTorch by
// torch.set_flush_denormal()), and a thread inherits that from the one that starts it. Ranks whose
// sums were made by threads of different kinds would get different sums.
#pragma once

#include <cstdint>

namespace horovod_opt {

// While it lives, the thread keeps denormals and rounds to the nearest; then it has its own
// environment again. Reading that costs a nanosecond or two, and only a thread that has another one
// pays for two changes. Elsewhere than on x86-64 and aarch64 it does nothing.
//
// Whoever computes within a function reads its operands from memory and writes results there: so no
// compiler moves that computation out of the lifetime.
class FloatEnvironment {
 public:
  FloatEnvironment() : own_(Read()) {
    if ((own_ & kOther) != 0) Write(own_ & ~kOther);
  }
  ~FloatEnvironment() {
    if ((own_ & kOther) != 0) Write(own_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

#if defined(__x86_64__)
  using Word = std::uint32_t;                         // MXCSR
  static constexpr Word kFlush = 1u << 15 | 1u << 6;  // results (FTZ), operands (DAZ)
  static constexpr Word kRounding = 3u << 13;         // 0: to the nearest
  static Word Read() {
    Word word;
    asm volatile("stmxcsr %0" : "=m"(word) : : "memory");
    return word;
  }
  static void Write(Word word) { asm volatile("ldmxcsr %0" : : "m"(word) : "memory"); }
#elif defined(__aarch64__)
  using Word = std::uint64_t;                          // FPCR
  static constexpr Word kFlush = 1u << 24 | 1u << 19;  // FZ; of float16, FZ16
  static constexpr Word kRounding = 3u << 22;          // 0: to the nearest
  static Word Read() {
    Word word;
    asm volatile("mrs %0, fpcr" : "=r"(word) : : "memory");
    return word;
  }
  static void Write(Word word) { asm volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#else
  using Word = std::uint32_t;
  static constexpr Word kFlush = 0, kRounding = 0;
  static Word Read() { return 0; }
  static void Write(Word) {}
#endif

 private:
  static constexpr Word kOther = kFlush | kRounding;

  const Word own_;
};

}  // namespace horovod_opt
