#include "horovod_opt/csrc/core/base/float16.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "horovod_opt/csrc/core/base/float_environment.h"

namespace horovod_opt {
namespace float16_test {

template <class Value, class Word>
Value FromBits(Word bits) {
  static_assert(sizeof(Value) == sizeof(Word));
  Value value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof(bits));
  return value;
}

template <class Value>
auto Bits(Value value) {
  std::conditional_t<sizeof(Value) == 2, std::uint16_t, std::uint32_t> bits;
  static_assert(sizeof(Value) == sizeof(bits));
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

std::vector<Float16> EveryValue() {
  std::vector<Float16> all;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    all.push_back(FromBits<Float16>(static_cast<std::uint16_t>(bits)));
  }
  return all;
}

// By the definition of binary16.
double Meaning(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// Both paths; of a few values at a time, too, which the vectors of neither divide.
class Float16Paths : public testing::TestWithParam<const Float16Conversion*> {
 protected:
  std::vector<float> Widen(const std::vector<Float16>& from, std::int64_t at_a_time) const {
    std::vector<float> to(from.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(from.size()); i += at_a_time) {
      const auto rest = static_cast<std::int64_t>(from.size()) - i;
      GetParam()->widen(from.data() + i, to.data() + i, std::min(at_a_time, rest));
    }
    return to;
  }
  std::vector<Float16> Narrow(const std::vector<float>& from, std::int64_t at_a_time = 1000) const {
    std::vector<Float16> to(from.size());
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(from.size()); i += at_a_time) {
      const auto rest = static_cast<std::int64_t>(from.size()) - i;
      GetParam()->narrow(from.data() + i, to.data() + i, std::min(at_a_time, rest));
    }
    return to;
  }
  std::uint16_t NarrowBits(std::uint32_t bits) const {
    return Bits(Narrow(std::vector<float>(8, FromBits<float>(bits)))[7]);
  }
};

TEST_P(Float16Paths, EveryValueIsAFloatAndBack) {
  const std::vector<Float16> all = EveryValue();
  for (std::int64_t at_a_time : {1, 7, 8, 65536}) {
    const std::vector<float> floats = Widen(all, at_a_time);
    const std::vector<Float16> back = Narrow(floats, at_a_time);
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const double meaning = Meaning(bits);
      if (std::isnan(meaning)) {
        // The bits of a NaN are kept, and it becomes a quiet one.
        const std::uint32_t expected = (bits & 0x8000) << 16 | 0x7fc00000 | (bits & 1023) << 13;
        ASSERT_EQ(Bits(floats[bits]), expected) << std::hex << bits;
        ASSERT_EQ(Bits(back[bits]), Float16::kNan) << std::hex << bits;
      } else {
        ASSERT_EQ(Bits(floats[bits]), Bits(static_cast<float>(meaning))) << std::hex << bits;
        ASSERT_EQ(Bits(back[bits]), bits);
      }
    }
  }
}

// The float halfway between two neighbours goes to the even one, and its own neighbours to theirs;
// denormals among them, and the greatest one, whose other neighbour is infinity.
TEST_P(Float16Paths, RoundsToTheNearestWithTiesToEven) {
  std::vector<float> floats;
  std::vector<std::uint32_t> expected;
  for (std::uint32_t sign : {0x0000u, 0x8000u}) {
    for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
      const double next = bits == 0x7bff ? 65536 : Meaning(bits + 1);
      const float half = static_cast<float>((Meaning(bits) + next) / 2);
      const std::uint32_t bits_of_half = Bits(half) | sign << 16;
      const std::uint32_t below = sign | bits, above = below + 1;
      floats.push_back(FromBits<float>(bits_of_half - 1));
      expected.push_back(below);
      floats.push_back(FromBits<float>(bits_of_half));
      expected.push_back(below % 2 == 0 ? below : above);
      floats.push_back(FromBits<float>(bits_of_half + 1));
      expected.push_back(above);
    }
  }
  const std::vector<Float16> halves = Narrow(floats);
  for (std::size_t i = 0; i < halves.size(); ++i) ASSERT_EQ(Bits(halves[i]), expected[i]) << i;
}

TEST_P(Float16Paths, WhatIsTooLargeOrTooSmall) {
  for (std::uint32_t sign : {0u, 0x80000000u}) {
    const std::uint32_t half_sign = sign >> 16;
    EXPECT_EQ(NarrowBits(sign | 0x47800000), half_sign | 0x7c00) << "65536";
    EXPECT_EQ(NarrowBits(sign | 0x7f7fffff), half_sign | 0x7c00) << "the greatest float";
    EXPECT_EQ(NarrowBits(sign | 0x7f800000), half_sign | 0x7c00);
    EXPECT_EQ(NarrowBits(sign | 0x00000001), half_sign) << "the least float";
    EXPECT_EQ(NarrowBits(sign | 0x007fffff), half_sign) << "a denormal one";
    EXPECT_EQ(NarrowBits(sign), half_sign);
    for (std::uint32_t nan : {0x7f800001u, 0x7fc00000u, 0x7fffffffu}) {
      EXPECT_EQ(NarrowBits(sign | nan), Float16::kNan);
    }
  }
}

TEST_P(Float16Paths, AnyFloatIsAsTheOtherPathHasIt) {
  std::mt19937 random(5);
  std::vector<float> floats(200000);
  for (float& value : floats) value = FromBits<float>(static_cast<std::uint32_t>(random()));
  // Most of them would be too large or too small.
  for (std::size_t i = 0; i < floats.size(); i += 2) {
    const auto bits = static_cast<std::uint32_t>(random());
    floats[i] = FromBits<float>((bits & 0x87ffffff) | 0x30000000 | (bits & 0x08000000));
  }
  const std::vector<Float16> halves = Narrow(floats);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(Bits(halves[i]), Bits(Float16(floats[i]))) << std::hex << Bits(floats[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Float16Paths,
                         testing::Values(&Float16Conversion::Portable(),
                                         &Float16Conversion::Fastest()));

TEST(FloatEnvironment, KeepsDenormalsAndGivesBackWhatTheThreadHad) {
  if (FloatEnvironment::kFlush == 0) GTEST_SKIP() << "this processor's is not known";
  const volatile float denormal = 1e-40f;
  const volatile double odd = 1 + 0x1p-52, half = 0x1p-53;
  const FloatEnvironment::Word before = FloatEnvironment::Read();
  const FloatEnvironment::Word other =
      before | FloatEnvironment::kFlush | FloatEnvironment::kRounding;
  FloatEnvironment::Write(other);
  const float flushed = denormal + denormal;
  const double truncated = odd + half;
  {
    const FloatEnvironment environment;
    EXPECT_EQ(Bits(denormal + denormal), 2 * Bits(float{denormal}));
    EXPECT_EQ(odd + half, 1 + 0x1p-51);
    {
      const FloatEnvironment inner;
      EXPECT_EQ(Bits(denormal + denormal), 2 * Bits(float{denormal}));
    }
    EXPECT_EQ(Bits(denormal + denormal), 2 * Bits(float{denormal}));
  }
  const FloatEnvironment::Word after = FloatEnvironment::Read();
  FloatEnvironment::Write(before);
  EXPECT_EQ(Bits(flushed), 0u);
  EXPECT_EQ(truncated, 1 + 0x1p-52);
  EXPECT_EQ((after & other), other);
}

}  // namespace float16_test
}  // namespace horovod_opt
