// float16 (IEEE 754's binary16). Arithmetic is that of float32; what becomes a float16 again is
// rounded to the nearest one, ties to even, and every NaN is the same one, as upstream's functions
// have it, so that results do not depend on the order of two operands.
#pragma once

#include <cstdint>
#include <cstring>

namespace horovod_opt {

class Float16 {
 public:
  static constexpr std::uint16_t kNan = 0x7fff;

  Float16() = default;
  Float16(float value) : bits_(Narrow(value)) {}
  operator float() const { return Widen(bits_); }

  Float16& operator*=(float factor) { return *this = Float16(*this * factor); }

 private:
  // Without branches, so that compilers vectorize loops of them. What is scaled by adding a number
  // of the right size is rounded by that addition (Giesen 2012, "half to float done quic").
  static float Widen(std::uint16_t half) {
    const std::uint32_t magnitude = std::uint32_t{half} << 13 & 0x0fffe000;
    const std::uint32_t exponent = magnitude & 0x0f800000;
    // The least normal float16 as a float32, which stands in for the missing leading bit.
    constexpr std::uint32_t kLeast = 113u << 23;
    const float small = ToFloat(magnitude + kLeast) - ToFloat(kLeast);
    const std::uint32_t large =
        magnitude + (exponent == 0x0f800000 ? (255u - 31u) << 23 : (127u - 15u) << 23);
    const std::uint32_t bits = exponent == 0 ? ToBits(small) : large;
    const std::uint32_t quiet = magnitude > 0x0f800000 ? 0x00400000 : 0;
    return ToFloat(bits | quiet | (half & 0x8000u) << 16);
  }

  static std::uint16_t Narrow(float value) {
    const std::uint32_t bits = ToBits(value);
    const std::uint32_t magnitude = bits & 0x7fffffff;
    // Its last bit is that of the denormal float16, so the sum is rounded to one.
    constexpr std::uint32_t kHalf = 126u << 23;
    const std::uint32_t small = ToBits(ToFloat(magnitude) + ToFloat(kHalf)) - kHalf;
    const std::uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    std::uint32_t half = magnitude < 113u << 23 ? small : normal;
    half = magnitude >= 143u << 23 ? 0x7c00 : half;
    half |= bits >> 16 & 0x8000;
    return static_cast<std::uint16_t>(magnitude > 0x7f800000 ? kNan : half);
  }

  static float ToFloat(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  static std::uint32_t ToBits(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }

  std::uint16_t bits_;
};

static_assert(sizeof(Float16) == 2, "it is what frameworks store");

// The same of many. Count is in elements.
struct Float16Conversion {
  void (*widen)(const Float16* from, float* to, std::int64_t count);
  void (*narrow)(const float* from, Float16* to, std::int64_t count);

  static const Float16Conversion& Portable();
  // By the processor's instructions where it has them (F16C of x86-64; every aarch64). The same
  // bits.
  static const Float16Conversion& Fastest();
};

}  // namespace horovod_opt
