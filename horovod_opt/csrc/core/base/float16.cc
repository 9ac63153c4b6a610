#include "horovod_opt/csrc/core/base/float16.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace horovod_opt {
namespace {

void WidenByIntegers(const Float16* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

void NarrowByIntegers(const float* from, Float16* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

constexpr Float16Conversion kPortable{WidenByIntegers, NarrowByIntegers};

#if defined(__x86_64__)

#define HOROVOD_OPT_F16C __attribute__((target("avx,f16c")))
constexpr std::int64_t kLanes = 8;

HOROVOD_OPT_F16C void WidenByInstruction(const Float16* from, float* to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  WidenByIntegers(from + i, to + i, count - i);
}

// The instruction keeps what it can of a NaN's bits.
HOROVOD_OPT_F16C void NarrowByInstruction(const float* from, Float16* to, std::int64_t count) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m256 values = _mm256_loadu_ps(from + i);
    const __m256 is_nan = _mm256_cmp_ps(values, values, _CMP_UNORD_Q);
    const __m128i halves =
        _mm256_cvtps_ph(_mm256_blendv_ps(values, nan, is_nan), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  NarrowByIntegers(from + i, to + i, count - i);
}

// The system saves the registers that AVX has, and the processor has F16C, which GCC 8's
// __builtin_cpu_supports() does not know.
bool HasInstruction() {
  unsigned eax, ebx, ecx, edx;
  return __builtin_cpu_supports("avx") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 &&
         (ecx & bit_F16C) != 0;
}

#elif defined(__aarch64__)

void WidenByInstruction(const Float16* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    __fp16 half;
    std::memcpy(&half, from + i, sizeof(half));
    to[i] = half;
  }
}

void NarrowByInstruction(const float* from, Float16* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const __fp16 half = static_cast<__fp16>(from[i]);
    std::uint16_t bits;
    std::memcpy(&bits, &half, sizeof(bits));
    bits = from[i] != from[i] ? Float16::kNan : bits;
    std::memcpy(static_cast<void*>(to + i), &bits, sizeof(bits));
  }
}

bool HasInstruction() { return true; }

#else

constexpr auto WidenByInstruction = WidenByIntegers;
constexpr auto NarrowByInstruction = NarrowByIntegers;

bool HasInstruction() { return false; }

#endif

}  // namespace

const Float16Conversion& Float16Conversion::Portable() { return kPortable; }

const Float16Conversion& Float16Conversion::Fastest() {
  static constexpr Float16Conversion kByInstruction{WidenByInstruction, NarrowByInstruction};
  static const Float16Conversion& fastest = HasInstruction() ? kByInstruction : kPortable;
  return fastest;
}

}  // namespace horovod_opt
