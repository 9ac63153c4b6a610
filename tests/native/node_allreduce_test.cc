#include "node_allreduce.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>

#include "node_ranks.h"

namespace horovod_opt {
namespace {

constexpr std::size_t kSmallChunk = 1 << 12;  // many chunks and no slice of more than one block

template <class Number>
void Add(void* accumulate, const void* other, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    auto& sum = static_cast<Number*>(accumulate)[i];
    sum = static_cast<Number>(sum + static_cast<const Number*>(other)[i]);
  }
}

template <class Number>
void Scale(void* data, std::int64_t count, double factor) {
  for (std::int64_t i = 0; i < count; ++i) {
    auto& value = static_cast<Number*>(data)[i];
    value = static_cast<Number>(value * factor);
  }
}

// Now and then other ranks get ahead, wherever this one is.
template <class Number>
void AddSlowly(void* accumulate, const void* other, std::int64_t count) {
  thread_local std::minstd_rand random(
      static_cast<unsigned>(std::hash<std::thread::id>()(std::this_thread::get_id())));
  if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  Add<Number>(accumulate, other, count);
}

// An element that no cache line holds a whole number of, and that must stay in one piece.
struct Triple {
  float x, y, z;
};

void AddTriples(void* accumulate, const void* other, std::int64_t count) {
  Add<float>(accumulate, other, 3 * count);
}

void ScaleTriples(void* data, std::int64_t count, double factor) {
  Scale<float>(data, 3 * count, factor);
}

const Arithmetic kFloats{sizeof(float), AddSlowly<float>, Scale<float>};

// One call of Run() as all ranks together see it: random sizes, inputs and outputs, and the result
// that is expected, computed in the order that is promised.
class Case {
 public:
  struct Rank {
    std::vector<std::vector<char>> in;   // of each segment
    std::vector<std::vector<char>> out;  // aligned for every type, as vectors of char are
    std::vector<Segment> segments;
  };

  Case(int ranks, const Arithmetic& arithmetic, const std::vector<std::int64_t>& sizes,
       double prescale, double postscale, unsigned seed)
      : arithmetic_(arithmetic), prescale_(prescale), postscale_(postscale), ranks_(ranks) {
    std::mt19937 random(seed);
    for (Rank& rank : ranks_) {
      for (std::int64_t elements : sizes) AddSegment(rank, elements, random);
    }
    Reduce();
  }

  bool Run(NodeAllreduce& reduce, int rank, std::uint64_t tag, const std::atomic<bool>& stop) {
    WaitCounts counts;
    return reduce.Run(ranks_[rank].segments, arithmetic_, prescale_, postscale_, tag, stop, counts);
  }

  void Check(int rank) const {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      const Segment& segment = ranks_[rank].segments[i];
      if (segment.out == nullptr || segment.bytes == 0) continue;
      ASSERT_EQ(std::memcmp(segment.out, expected_[i].data(), expected_[i].size()), 0)
          << "rank " << rank << ", segment " << i << " of " << segment.bytes << " bytes";
    }
  }

 private:
  void AddSegment(Rank& rank, std::int64_t elements, std::mt19937& random) {
    const std::size_t bytes = static_cast<std::size_t>(elements) * arithmetic_.element;
    const bool has_input = random() % 8 != 0;
    const bool is_wanted = random() % 8 != 0;
    const bool is_in_place = random() % 3 == 0 && has_input && is_wanted;
    std::vector<char> in(has_input ? bytes : 0);
    // Floats of very different size: a sum in another order has other bits.
    for (std::size_t at = 0; at + sizeof(float) <= in.size(); at += sizeof(float)) {
      const float value = static_cast<float>(random() % 2000) - 1000.0f;
      const float number = std::ldexp(value, static_cast<int>(random() % 12));
      std::memcpy(in.data() + at, &number, sizeof(float));
    }
    rank.in.push_back(std::move(in));
    rank.out.emplace_back(is_wanted && !is_in_place ? bytes : 0);
    void* const input = has_input ? rank.in.back().data() : nullptr;
    void* const own_output = is_wanted ? rank.out.back().data() : nullptr;
    rank.segments.push_back(
        {input, is_in_place ? input : own_output, static_cast<std::int64_t>(bytes)});
  }

  std::vector<char> Input(const Rank& rank, std::size_t segment) const {
    std::vector<char> values(static_cast<std::size_t>(rank.segments[segment].bytes));
    if (!rank.in[segment].empty()) values = rank.in[segment];
    Multiply(values, prescale_);
    return values;
  }

  void Multiply(std::vector<char>& values, double factor) const {
    const std::size_t count = values.size() / arithmetic_.element;
    if (factor != 1) arithmetic_.scale(values.data(), static_cast<std::int64_t>(count), factor);
  }

  void Reduce() {
    for (std::size_t i = 0; i < ranks_[0].segments.size(); ++i) {
      std::vector<char> sum = Input(ranks_[0], i);
      const std::size_t count = sum.size() / arithmetic_.element;
      for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
        const std::vector<char> other = Input(ranks_[rank], i);
        arithmetic_.reduce(sum.data(), other.data(), static_cast<std::int64_t>(count));
      }
      Multiply(sum, postscale_);
      expected_.push_back(std::move(sum));
    }
  }

  const Arithmetic arithmetic_;
  const double prescale_;
  const double postscale_;
  std::vector<Rank> ranks_;
  std::vector<std::vector<char>> expected_;
};

class Node {
 public:
  explicit Node(int ranks, std::size_t chunk = kSmallChunk)
      : memory_(NodeAllreduce::Bytes(ranks, chunk)) {
    for (int rank = 0; rank < ranks; ++rank) {
      reduce_.push_back(
          std::make_unique<NodeAllreduce>(memory_.data(), memory_.size(), rank, ranks));
    }
  }

  NodeAllreduce& operator[](int rank) { return *reduce_[rank]; }

  // All ranks perform all cases back to back, each at its own pace.
  void Perform(std::vector<Case>& cases) {
    const std::atomic<bool> stop{false};
    OnRanks(static_cast<int>(reduce_.size()), [&](int rank) {
      for (std::size_t i = 0; i < cases.size(); ++i) {
        ASSERT_TRUE(cases[i].Run(*reduce_[rank], rank, i, stop));
      }
    });
    for (const Case& one : cases) {
      for (std::size_t rank = 0; rank < reduce_.size(); ++rank) one.Check(static_cast<int>(rank));
    }
  }

 private:
  const Zeros memory_;
  std::vector<std::unique_ptr<NodeAllreduce>> reduce_;
};

class NodeAllreduceOfRanks : public testing::TestWithParam<int> {
 protected:
  const int ranks_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(Ranks, NodeAllreduceOfRanks, testing::Values(1, 2, 3, 4, 7));

TEST_P(NodeAllreduceOfRanks, OneTensorOfAnySize) {
  Node node(ranks_);
  std::vector<Case> cases;
  for (std::int64_t elements : {1, 2, 3, 17, 145, 1023, 1024, 1025, 2047, 4099, 20011}) {
    cases.emplace_back(ranks_, kFloats, std::vector<std::int64_t>{elements}, 1, 1, 7);
  }
  node.Perform(cases);
}

TEST_P(NodeAllreduceOfRanks, ElementsOfEverySize) {
  Node node(ranks_);
  std::vector<Case> cases;
  for (const Arithmetic& arithmetic :
       {Arithmetic{1, AddSlowly<std::uint8_t>, Scale<std::uint8_t>},
        Arithmetic{2, AddSlowly<std::uint16_t>, Scale<std::uint16_t>}, kFloats,
        Arithmetic{8, AddSlowly<std::uint64_t>, Scale<std::uint64_t>},
        Arithmetic{sizeof(Triple), AddTriples, ScaleTriples}}) {
    for (std::int64_t elements : {1, 333, 7001}) {
      cases.emplace_back(ranks_, arithmetic, std::vector<std::int64_t>{elements, 5}, 1, 1, 11);
    }
  }
  node.Perform(cases);
}

// Small and large calls, many and few segments, empty ones too, with and without factors.
TEST_P(NodeAllreduceOfRanks, RandomCallsBackToBack) {
  std::mt19937 random(42);
  Node node(ranks_);
  std::vector<Case> cases;
  for (unsigned i = 0; i < 300; ++i) {
    const std::int64_t largest = std::int64_t{1} << random() % 13;
    std::vector<std::int64_t> sizes(random() % 12);
    for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(random()) % largest;
    const double prescale = random() % 2 == 0 ? 1 : 1.0 / 3;
    const double postscale = random() % 2 == 0 ? 1 : 0.7;
    cases.emplace_back(ranks_, kFloats, sizes, prescale, postscale, i);
  }
  node.Perform(cases);
}

TEST_P(NodeAllreduceOfRanks, SlicesOfManyBlocks) {
  Node node(ranks_, NodeAllreduce::kDefaultChunk);
  std::vector<Case> cases;
  cases.emplace_back(ranks_, kFloats, std::vector<std::int64_t>{300'000, 1, 400'001}, 0.5, 3, 1);
  cases.emplace_back(ranks_, kFloats, std::vector<std::int64_t>{9000}, 1, 1, 2);
  node.Perform(cases);
}

TEST(NodeAllreduce, ChunksOfOneElementPerRankWork) {
  Node node(3, 1);
  std::vector<Case> cases;
  cases.emplace_back(3, kFloats, std::vector<std::int64_t>{1, 1000}, 1, 1, 3);
  node.Perform(cases);
}

// One rank comes late to every call; the others must not run over it.
TEST(NodeAllreduce, ASlowRankIsWaitedFor) {
  Node node(3);
  std::vector<Case> cases;
  for (unsigned i = 0; i < 30; ++i) {
    cases.emplace_back(3, kFloats, std::vector<std::int64_t>{i % 3 == 0 ? 4000 : 50}, 1, 1, i);
  }
  const std::atomic<bool> stop{false};
  OnRanks(3, [&](int rank) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      ASSERT_TRUE(cases[i].Run(node[rank], rank, i, stop));
    }
  });
  for (const Case& one : cases) {
    for (int rank = 0; rank < 3; ++rank) one.Check(rank);
  }
}

}  // namespace
}  // namespace horovod_opt
