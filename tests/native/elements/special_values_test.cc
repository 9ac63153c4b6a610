// NaNs, infinities, zeros of both signs, denormals and overflows, through every algorithm, whatever
// the floating-point environment of the threads: all ranks get the same bits, and the right ones.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/network/block_ring.h"
#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_places.h"
#include "tests/native/network/loopback.h"
#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {
namespace special_values_test {

using elementwise::Computed;

template <class T>
using BitsOf = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
BitsOf<T> Bits(T value) {
  BitsOf<T> bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

template <class T>
T FromBits(std::uint64_t bits) {
  const auto own = static_cast<BitsOf<T>>(bits);
  T value;
  std::memcpy(static_cast<void*>(&value), &own, sizeof(own));
  return value;
}

// Of a floating-point type: how many bits its fraction has.
template <class T>
constexpr int kFraction = std::is_same_v<T, Float16>    ? 10
                          : std::is_same_v<T, Bfloat16> ? 7
                          : std::is_same_v<T, float>    ? 23
                                                        : 52;

template <class T>
constexpr bool kIsFloat = elementwise::kIsShort<T> || std::is_floating_point_v<T>;

template <class T>
bool IsNan(T value) {
  if constexpr (kIsFloat<T>) {
    return std::isnan(static_cast<Computed<T>>(value));
  } else {
    return false;
  }
}

template <class T>
T Draw(std::mt19937& random) {
  if constexpr (!kIsFloat<T>) {
    return static_cast<T>(random() % 7 - (std::is_signed_v<T> ? 3 : 0));
  } else {
    constexpr int kWidth = 8 * sizeof(T);
    const std::uint64_t one = 1, sign = (random() & one) << (kWidth - 1);
    const std::uint64_t quiet = one << (kFraction<T> - 1), least_normal = one << kFraction<T>;
    const std::uint64_t infinity = (one << (kWidth - 1)) - least_normal;
    const std::uint64_t payload = 1 + random() % (quiet - 1);
    switch (random() % 10) {
      case 0:
        return FromBits<T>(sign | infinity | quiet | (random() % 2 == 0 ? 0 : payload));
      case 1:
        return FromBits<T>(sign | infinity | payload);  // a signaling NaN
      case 2:
        return FromBits<T>(sign | infinity);
      case 3:
      case 4:
        return FromBits<T>(sign);
      case 5:
        return FromBits<T>(sign | payload);  // denormal
      case 6:
        return FromBits<T>(sign | (infinity - 1));  // the greatest
      case 7:
        return FromBits<T>(sign | (least_normal + payload));
      default:
        return FromBits<T>(sign | Bits(T(static_cast<Computed<T>>(1))) | payload);
    }
  }
}

// What the operations have to be, in other words than the product's.
struct Add {
  using Op = elementwise::Sum;
  static constexpr bool kIsExact = false;  // in any order
  template <class V>
  static V Of(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct Multiply {
  using Op = elementwise::Product;
  static constexpr bool kIsExact = false;
  template <class V>
  static V Of(V a, V b) {
    return static_cast<V>(a * b);
  }
};
template <class V>
bool IsLess(V a, V b) {
  if constexpr (std::is_floating_point_v<V>) {
    if (a == b) return std::signbit(a) && !std::signbit(b);
  }
  return a < b;
}
struct Least {
  using Op = elementwise::Min;
  static constexpr bool kIsExact = true;
  template <class V>
  static V Of(V a, V b) {
    return IsLess(b, a) ? b : a;
  }
};
struct Most {
  using Op = elementwise::Max;
  static constexpr bool kIsExact = true;
  template <class V>
  static V Of(V a, V b) {
    return IsLess(a, b) ? b : a;
  }
};

template <class T>
Arithmetic ArithmeticOf(decltype(Arithmetic::reduce) reduce, decltype(reduce) commute) {
  using Factor = std::conditional_t<kIsFloat<T>, Computed<T>, double>;
  return {sizeof(T), reduce, &elementwise::Scale<T, Factor>, commute};
}

template <class T, class Op>
Arithmetic ArithmeticOf() {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    return ArithmeticOf<T>(&elementwise::ReduceRoundingOnce<T, Op>, &elementwise::Commute<T, Op>);
  } else {
    return ArithmeticOf<T>(&elementwise::Reduce<T, Op>, &elementwise::Commute<T, Op>);
  }
}

// Of ranks 0, 1, ...: what each gives, and the result of each.
template <class T>
using ByRank = std::vector<std::vector<T>>;

// Threads of frameworks flush denormals, some, and others do not.
class Environment {
 public:
  explicit Environment(int rank) : before_(FloatEnvironment::Read()) {
    if (rank % 2 == 1) FloatEnvironment::Write(before_ | FloatEnvironment::kFlush);
  }
  ~Environment() { FloatEnvironment::Write(before_); }

 private:
  const FloatEnvironment::Word before_;
};

constexpr double kPrescale = 2, kPostscale = 0.5;  // exact, but of the greatest and the least

template <class T>
BucketReduction ReductionOf(const Arithmetic& arithmetic, std::vector<T>& given,
                            std::vector<T>& result, bool scales) {
  const auto bytes = static_cast<std::int64_t>(given.size() * sizeof(T));
  return {{{given.data(), result.data(), bytes}},
          arithmetic,
          scales ? kPrescale : 1,
          scales ? kPostscale : 1};
}

template <class T>
void OnOneNode(const Arithmetic& arithmetic, ByRank<T>& given, ByRank<T>& results, bool scales,
               std::size_t chunk) {
  const int ranks = static_cast<int>(given.size());
  const Zeros memory(NodeCollectives::Bytes(ranks, chunk));
  OnRanks(ranks, [&](int rank) {
    const Environment environment(rank);
    NodeCollectives node(memory.data(), memory.size(), rank, ranks);
    WaitCounts counts;
    const std::atomic<bool> never{false};
    ASSERT_TRUE(node.Allreduce(ReductionOf(arithmetic, given[rank], results[rank], scales), 1,
                               never, counts));
  });
}

template <class T>
void InPlaces(const Arithmetic& arithmetic, ByRank<T>& given, ByRank<T>& results, bool scales) {
  const int ranks = static_cast<int>(given.size());
  const Zeros memory(BucketPlaces::Bytes(ranks));
  OnRanks(ranks, [&](int rank) {
    const Environment environment(rank);
    BucketPlaces places(memory.data(), rank, ranks);
    const Turn turn{0, 0, 0, 1, 1};
    const auto reduction = ReductionOf(arithmetic, given[rank], results[rank], scales);
    WaitCounts counts;
    const std::atomic<bool> never{false};
    ASSERT_TRUE(places.Contribute(turn, reduction, 1));
    ASSERT_TRUE(places.AwaitAll(turn, never, counts));
    places.Reduce(turn, reduction, 1);
  });
}

// The first chunk and what remains are doubled, the chunk between goes round a ring. `place`: sums
// are made in the memory of the result on some members and elsewhere on others.
constexpr NonblockingAllreduce::Sizes kSizes{512, 33 << 10};

template <class T>
void AmongNodes(const Arithmetic& arithmetic, ByRank<T>& given, ByRank<T>& results, bool scales) {
  const int members = static_cast<int>(given.size());
  Loopback net;
  OnRanks(members, [&](int self) {
    const Environment environment(self);
    Loopback::End end(net, self, static_cast<unsigned>(self) + 1);
    BufferPool buffers(1 << 20);
    const auto reduction = ReductionOf(arithmetic, given[self], results[self], scales);
    AllreduceData data{reduction.Bytes(),
                       arithmetic,
                       [&](std::int64_t begin, std::int64_t finish, char* to) {
                         reduction.Contribute(begin, finish, to);
                       },
                       [&](std::int64_t begin, std::int64_t finish, const char* sums) {
                         reduction.Write(begin, finish, sums);
                       },
                       [&](char* sums, std::int64_t bytes) { reduction.ScaleSum(sums, bytes); },
                       {}};
    if (self % 2 == 0) {
      data.place = [&](std::int64_t begin, std::int64_t finish) -> AllreduceData::Place {
        const auto [in, out] = reduction.Where(begin, finish);
        return {in, out};
      };
    }
    auto outcome = NonblockingAllreduce::Outcome::kDiffers;
    NonblockingAllreduce allreduce(
        members, self, 0, 1, std::move(data), [&](auto with) { outcome = with; }, kSizes);
    while (!allreduce.Advance(end, buffers)) end.Progress(Transport::Clock::time_point::max());
    EXPECT_EQ(outcome, NonblockingAllreduce::Outcome::kDone);
  });
}

template <class T>
T Rounded(Computed<T> value) {
  return static_cast<T>(value);
}

// In the order of ranks. Rounded after each two; bfloat16 on one node once.
template <class T, class Reference>
T Expected(const ByRank<T>& given, std::size_t i, bool scales, bool once) {
  using V = Computed<T>;
  const auto scaled = [&](T value, double factor) {
    return scales ? Rounded<T>(static_cast<V>(value) * static_cast<V>(factor)) : value;
  };
  V result = scaled(given[0][i], kPrescale);
  for (std::size_t rank = 1; rank < given.size(); ++rank) {
    const V next = scaled(given[rank][i], kPrescale);
    result = std::isnan(result) ? result : std::isnan(next) ? next : Reference::Of(result, next);
    if (!once) result = Rounded<T>(result);
  }
  return scaled(Rounded<T>(result), kPostscale);
}

template <class T, class Reference>
void Check(const ByRank<T>& given, const ByRank<T>& results, bool scales, bool one_node,
           const std::string& what) {
  for (std::size_t rank = 1; rank < results.size(); ++rank) {
    for (std::size_t i = 0; i < results[0].size(); ++i) {
      ASSERT_EQ(+Bits(results[rank][i]), +Bits(results[0][i]))
          << what << ": ranks 0 and " << rank << ", element " << i;
    }
  }
  // Among three nodes or more the order of sums is the algorithm's.
  if (!one_node && !Reference::kIsExact && given.size() > 2) return;
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    const T result = results[0][i];
    if constexpr (kIsFloat<T>) {
      const bool once = one_node && std::is_same_v<T, Bfloat16>;
      const T expected = Expected<T, Reference>(given, i, scales, once);
      ASSERT_EQ(IsNan(result), IsNan(expected)) << what << ": element " << i;
      if (!IsNan(expected)) ASSERT_EQ(Bits(result), Bits(expected)) << what << ": element " << i;
    } else {
      T expected = given[0][i];
      for (std::size_t rank = 1; rank < given.size(); ++rank) {
        expected = Reference::Of(expected, given[rank][i]);
      }
      ASSERT_EQ(+result, +expected) << what << ": element " << i;
    }
  }
}

template <class T, class Reference>
void TryAll(const std::string& what) {
  std::mt19937 random(11);
  const Arithmetic arithmetic = ArithmeticOf<T, typename Reference::Op>();
  for (const int ranks : {2, 3, 4}) {
    const std::size_t few = 333, many = (kSizes.first + kSizes.chunk + 1000) / sizeof(T) + 1;
    for (const std::size_t count : {few, many}) {
      if (count == many && !kIsFloat<T>) continue;  // they have no special values
      // Least and most are not scaled in practice, and integers are truncated.
      const bool scales = kIsFloat<T> && !Reference::kIsExact && count == few;
      ByRank<T> given(static_cast<std::size_t>(ranks), std::vector<T>(count));
      for (std::vector<T>& values : given) {
        for (T& value : values) value = Draw<T>(random);
      }
      const auto check = [&](bool one_node, const char* way, const auto& reduce) {
        ByRank<T> results(given.size(), std::vector<T>(count));
        reduce(results);
        Check<T, Reference>(given, results, scales, one_node,
                            what + ", " + std::to_string(ranks) + " ranks, " + way);
      };
      check(true, "one node",
            [&](ByRank<T>& results) { OnOneNode(arithmetic, given, results, scales, 1 << 20); });
      check(true, "one node, in parts",
            [&](ByRank<T>& results) { OnOneNode(arithmetic, given, results, scales, 1 << 10); });
      check(true, "in a place",
            [&](ByRank<T>& results) { InPlaces(arithmetic, given, results, scales); });
      check(false, "nodes",
            [&](ByRank<T>& results) { AmongNodes(arithmetic, given, results, scales); });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

template <class T>
class SpecialValues : public testing::Test {};

using Types = testing::Types<Float16, Bfloat16, float, double, std::uint8_t, std::int8_t,
                             std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(SpecialValues, Types);

TYPED_TEST(SpecialValues, Sum) { TryAll<TypeParam, Add>("sum"); }
TYPED_TEST(SpecialValues, Product) { TryAll<TypeParam, Multiply>("product"); }
TYPED_TEST(SpecialValues, Min) { TryAll<TypeParam, Least>("min"); }
TYPED_TEST(SpecialValues, Max) { TryAll<TypeParam, Most>("max"); }

// The operations by themselves: in either order, in any place of a vector and behind the last one,
// in place of either input; a NaN alone is given on.
template <class T>
class SpecialPairs : public testing::Test {};
using Floats = testing::Types<Float16, Bfloat16, float, double>;
TYPED_TEST_SUITE(SpecialPairs, Floats);

TYPED_TEST(SpecialPairs, Commute) {
  using T = TypeParam;
  std::mt19937 random(12);
  for (const auto reduce :
       {&elementwise::Commute<T, elementwise::Sum>, &elementwise::Commute<T, elementwise::Product>,
        &elementwise::Commute<T, elementwise::Min>, &elementwise::Commute<T, elementwise::Max>,
        &elementwise::Reduce<T, elementwise::Min>, &elementwise::Reduce<T, elementwise::Max>}) {
    for (const std::size_t count : {1u, 3u, 8u, 29u, 1500u}) {
      std::vector<T> first(count), second(count);
      for (T& value : first) value = Draw<T>(random);
      for (T& value : second) value = Draw<T>(random);
      const auto reduced = [&](const std::vector<T>& a, const std::vector<T>& b, int place) {
        std::vector<T> inputs[] = {a, b, std::vector<T>(count)};
        const void* const pointers[] = {inputs[0].data(), inputs[1].data()};
        reduce(inputs[place].data(), pointers, 2, static_cast<std::int64_t>(count));
        return inputs[place];
      };
      const std::vector<T> expected = reduced(first, second, 2);
      for (const int place : {0, 1, 2}) {
        for (const bool swaps : {false, true}) {
          const auto result = swaps ? reduced(second, first, place) : reduced(first, second, place);
          for (std::size_t i = 0; i < count; ++i) {
            ASSERT_EQ(Bits(result[i]), Bits(expected[i]))
                << std::hex << +Bits(first[i]) << " and " << +Bits(second[i]);
          }
        }
      }
      for (std::size_t i = 0; i < count; ++i) {
        if (IsNan(first[i]) || IsNan(second[i])) ASSERT_TRUE(IsNan(expected[i]));
      }
    }
  }
}

// What every rank has is what all get, as in mode off; a NaN of one rank has its bits, but for the
// one that says that it is quiet.
TEST(NanBits, AreKept) {
  const auto reduce = []([[maybe_unused]] auto op, std::uint32_t a, std::uint32_t b) {
    const float first = FromBits<float>(a), second = FromBits<float>(b);
    const void* const inputs[] = {&first, &second};
    float result;
    elementwise::Commute<float, decltype(op)>(&result, inputs, 2, 1);
    return Bits(result);
  };
  constexpr std::uint32_t kOne = 0x3f800000, kNan = 0xffc00123, kSignaling = 0x7f800456;
  EXPECT_EQ(reduce(elementwise::Sum(), kNan, kNan), kNan);
  EXPECT_EQ(reduce(elementwise::Sum(), kNan, kOne), kNan);
  EXPECT_EQ(reduce(elementwise::Sum(), kOne, kNan), kNan);
  EXPECT_EQ(reduce(elementwise::Product(), kOne, kSignaling), kSignaling | 0x00400000);
  EXPECT_EQ(reduce(elementwise::Min(), kNan, kOne), kNan);
  EXPECT_EQ(reduce(elementwise::Max(), kOne, kSignaling), kSignaling);
  EXPECT_EQ(reduce(elementwise::Max(), kNan, kNan), kNan);
  EXPECT_EQ(reduce(elementwise::Min(), kNan, 0x7fc00400), 0xffc00523);
}

}  // namespace special_values_test
}  // namespace horovod_opt
