#include "horovod_opt/csrc/core/elements/elementwise.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "horovod_opt/csrc/core/base/bfloat16.h"

namespace horovod_opt {
namespace elementwise_test {

using Values = std::vector<Bfloat16>;
using Reduction = void (*)(void*, const void* const*, int, std::int64_t);

constexpr Reduction kPairs = elementwise::Reduce<Bfloat16, elementwise::Sum>;
constexpr Reduction kOnce = elementwise::ReduceRoundingOnce<Bfloat16, elementwise::Sum>;

Values Reduced(Reduction reduce, const std::vector<Values>& inputs) {
  std::vector<const void*> pointers;
  for (const Values& input : inputs) pointers.push_back(input.data());
  Values out(inputs[0].size());
  reduce(out.data(), pointers.data(), static_cast<int>(inputs.size()),
         static_cast<std::int64_t>(out.size()));
  return out;
}

// Infinities and NaNs among them.
std::vector<Values> Random(int inputs, std::size_t count) {
  std::mt19937 random(7);
  std::vector<Values> values(static_cast<std::size_t>(inputs), Values(count));
  for (Values& input : values) {
    for (Bfloat16& value : input) {
      const std::uint16_t bits = static_cast<std::uint16_t>(random());
      std::memcpy(static_cast<void*>(&value), &bits, sizeof(bits));
    }
  }
  return values;
}

void ExpectSameBits(const Values& first, const Values& second) {
  ASSERT_EQ(first.size(), second.size());
  EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(Bfloat16)), 0);
}

TEST(Elementwise, AnInputMoreDoesNotAddARounding) {
  const std::vector<Values> inputs{{256.0f}, {1.0f}, {1.0f}};
  EXPECT_EQ(Reduced(kPairs, inputs)[0], 256.0f);
  EXPECT_EQ(Reduced(kOnce, inputs)[0], 258.0f);
}

TEST(Elementwise, SumsAreThoseOfFloatsRoundedOnce) {
  for (int number : {2, 3, 4, 8}) {
    for (std::size_t count : {1u, 7u, 1024u, 1025u, 5000u}) {
      const std::vector<Values> inputs = Random(number, count);
      Values expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        float sum = inputs[0][i];
        for (int n = 1; n < number; ++n) sum += inputs[static_cast<std::size_t>(n)][i];
        expected[i] = sum;
      }
      ExpectSameBits(Reduced(kOnce, inputs), expected);
    }
  }
}

TEST(Elementwise, TwoInputsAreTheSameInAnyOrderAndEitherWay) {
  std::vector<Values> inputs = Random(2, 5000);
  const Values sum = Reduced(kPairs, inputs);
  ExpectSameBits(Reduced(kOnce, inputs), sum);
  std::swap(inputs[0], inputs[1]);
  ExpectSameBits(Reduced(kPairs, inputs), sum);
}

TEST(Elementwise, TheResultMayTakeThePlaceOfOneOfTheFirstTwo) {
  const std::vector<Values> inputs = Random(3, 3000);
  for (const Reduction reduce : {kPairs, kOnce}) {
    const Values expected = Reduced(reduce, inputs);
    for (std::size_t place : {0u, 1u}) {
      std::vector<Values> changed = inputs;
      const void* const pointers[] = {changed[0].data(), changed[1].data(), changed[2].data()};
      reduce(changed[place].data(), pointers, 3, 3000);
      ExpectSameBits(changed[place], expected);
    }
  }
}

TEST(Elementwise, EveryOperation) {
  const std::vector<Values> inputs{{2.0f, -3.0f}, {5.0f, 1.5f}, {4.0f, -8.0f}};
  using elementwise::ReduceRoundingOnce;
  const Values least = Reduced(ReduceRoundingOnce<Bfloat16, elementwise::Min>, inputs);
  const Values most = Reduced(ReduceRoundingOnce<Bfloat16, elementwise::Max>, inputs);
  const Values product = Reduced(ReduceRoundingOnce<Bfloat16, elementwise::Product>, inputs);
  EXPECT_EQ(least, (Values{2.0f, -8.0f}));
  EXPECT_EQ(most, (Values{5.0f, 1.5f}));
  EXPECT_EQ(product, (Values{40.0f, 36.0f}));
}

}  // namespace elementwise_test
}  // namespace horovod_opt
