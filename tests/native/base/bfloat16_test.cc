#include "horovod_opt/csrc/core/base/bfloat16.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace horovod_opt {
namespace bfloat16_test {

constexpr std::uint16_t kNan = 0x7fc0;

Bfloat16 FromBits(std::uint16_t bits) {
  Bfloat16 value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(bits));
  return value;
}

std::uint16_t Bits(Bfloat16 value) {
  std::uint16_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float Float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

TEST(Bfloat16, EveryValueIsAFloatAndBack) {
  int nans = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FromBits(static_cast<std::uint16_t>(bits));
    std::uint32_t of_float;
    std::memcpy(&of_float, &value, sizeof(value));
    ASSERT_EQ(of_float, bits << 16);
    const bool is_nan = std::isnan(value);
    nans += is_nan;
    ASSERT_EQ(Bits(value), is_nan ? kNan : bits);
  }
  EXPECT_EQ(nans, 2 * 127);
}

// The float halfway between two neighbours goes to the even one, and its own neighbours to theirs.
TEST(Bfloat16, IsRoundedToTheNearestWithTiesToEven) {
  for (std::uint32_t sign : {0x0000u, 0x8000u}) {
    for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {  // finite; the last one's is infinity
      const std::uint32_t below = sign | bits;
      const std::uint32_t above = below + 1;
      const std::uint32_t half = (below << 16) + 0x8000;
      ASSERT_EQ(Bits(Float(half)), below % 2 == 0 ? below : above);
      ASSERT_EQ(Bits(Float(half - 1)), below);
      ASSERT_EQ(Bits(Float(half + 1)), above);
    }
  }
}

TEST(Bfloat16, KnownRoundings) {
  EXPECT_EQ(Bits(0.0f), 0x0000);
  EXPECT_EQ(Bits(-0.0f), 0x8000);
  EXPECT_EQ(Bits(1.0f), 0x3f80);
  EXPECT_EQ(static_cast<float>(Bfloat16(257.0f)), 256.0f);
  EXPECT_EQ(static_cast<float>(Bfloat16(259.0f)), 260.0f);
  EXPECT_EQ(static_cast<float>(Bfloat16(-3.14159274f)), -3.140625f);
  EXPECT_EQ(Bits(Float(0x7f7fffff)), 0x7f80);  // the largest float is nearer to infinity
  EXPECT_EQ(Bits(INFINITY), 0x7f80);
  EXPECT_EQ(Bits(-INFINITY), 0xff80);
}

TEST(Bfloat16, EveryNanStaysOne) {
  for (std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    EXPECT_EQ(Bits(Float(bits)), kNan) << std::hex << bits;
  }
  EXPECT_EQ(Bits(FromBits(0x7f80) - FromBits(0x7f80)), kNan);
}

TEST(Bfloat16, ComputesAsFloatsDo) {
  const Bfloat16 a(3.0f), b(1.0078125f);
  EXPECT_EQ(a * b, 3.0234375f);  // not yet rounded
  EXPECT_EQ(a + b, 4.0078125f);
  EXPECT_TRUE(b < a);
  Bfloat16 scaled = a;
  scaled *= 0.1f;
  EXPECT_EQ(Bits(scaled), Bits(3.0f * 0.1f));
}

}  // namespace bfloat16_test
}  // namespace horovod_opt
