// Integer rounding: up to whole quotients and to whole cache lines.
#pragma once

#include <cstdint>

namespace horovod_opt {

constexpr std::int64_t kCacheLine = 64;  // bytes

// Of numbers that are not negative.
constexpr std::int64_t CeilDiv(std::int64_t numerator, std::int64_t denominator) {
  return (numerator + denominator - 1) / denominator;
}

// The next multiple of a cache line.
constexpr std::int64_t WholeLines(std::int64_t bytes) {
  return CeilDiv(bytes, kCacheLine) * kCacheLine;
}

}  // namespace horovod_opt
