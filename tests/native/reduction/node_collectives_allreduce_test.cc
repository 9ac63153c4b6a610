#include "horovod_opt/csrc/core/base/bfloat16.h"
#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "tests/native/reduction/node_collectives_case.h"

namespace horovod_opt {
namespace node_collectives_allreduce_test {

// An element that no cache line holds a whole number of, and that must stay in one piece.
struct Triple {
  float x, y, z;
};

void AddTriples(void* out, const void* const* inputs, int number, std::int64_t count) {
  Add<float>(out, inputs, number, 3 * count);
}

void ScaleTriples(void* data, std::int64_t count, double factor) {
  Scale<float>(data, 3 * count, factor);
}

// All ranks perform all cases back to back, each at its own pace.
void Perform(Node& node, std::vector<Case>& cases) {
  const std::atomic<bool> stop{false};
  OnRanks(node.ranks(), [&](int rank) {
    for (std::size_t i = 0; i < cases.size(); ++i) {
      ASSERT_TRUE(cases[i].Run(node[rank], rank, i, stop));
    }
  });
  for (const Case& test_case : cases) {
    for (int rank = 0; rank < node.ranks(); ++rank) test_case.Check(rank);
  }
}

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
  Perform(node, cases);
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
  Perform(node, cases);
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
  Perform(node, cases);
}

TEST_P(NodeAllreduceOfRanks, SlicesOfManyBlocks) {
  Node node(ranks_, NodeCollectives::kDefaultChunk);
  std::vector<Case> cases;
  cases.emplace_back(ranks_, kFloats, std::vector<std::int64_t>{300'000, 1, 400'001}, 0.5, 3, 1);
  cases.emplace_back(ranks_, kFloats, std::vector<std::int64_t>{9000}, 1, 1, 2);
  Perform(node, cases);
}

// Results that are written past the caches.
TEST_P(NodeAllreduceOfRanks, MoreThanTheCachesHold) {
  Node node(ranks_, NodeCollectives::kDefaultChunk);
  std::vector<Case> cases;
  const auto elements = static_cast<std::int64_t>(BucketReduction::kStreamed / sizeof(float));
  for (unsigned seed : {1u, 2u}) {
    cases.emplace_back(ranks_, kFloats,
                       std::vector<std::int64_t>{3, elements / 2, 1, 1500, elements / 2}, 1, 0.5,
                       seed);
  }
  Perform(node, cases);
}

// The product's arithmetic reads its inputs several times: a sum that took the place of the third
// rank's contribution would be added to itself.
TEST_P(NodeAllreduceOfRanks, InPlaceOnAnyRank) {
  Node node(ranks_);
  std::vector<Case> cases;
  const Arithmetic floats = *ArithmeticOf(data_type::kFloat32, reduce_op::kSum);
  for (unsigned seed = 0; seed < 60; ++seed) {
    cases.emplace_back(ranks_, floats, std::vector<std::int64_t>{40'000, 2}, 1, 1, seed);
  }
  Perform(node, cases);
}

TEST(NodeCollectives, ChunksOfOneElementPerRankWork) {
  Node node(3, 1);
  std::vector<Case> cases;
  cases.emplace_back(3, kFloats, std::vector<std::int64_t>{1, 1000}, 1, 1, 3);
  Perform(node, cases);
}

// One rank comes late to every call; the others must not run over it.
TEST(NodeCollectives, ASlowRankIsWaitedFor) {
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
  for (const Case& test_case : cases) {
    for (int rank = 0; rank < 3; ++rank) test_case.Check(rank);
  }
}

// 256 + 1 is 256 in bfloat16, and so would be any sum that is rounded in between.
TEST(NodeAllreduce, Bfloat16IsRoundedOnce) {
  const Arithmetic arithmetic{sizeof(Bfloat16),
                              elementwise::ReduceRoundingOnce<Bfloat16, elementwise::Sum>, nullptr};
  for (std::size_t elements : {100u, 9000u}) {  // flat, and in chunks
    Node node(3);
    const std::atomic<bool> stop{false};
    OnRanks(3, [&](int rank) {
      std::vector<Bfloat16> values(elements, rank == 0 ? 256.0f : 1.0f);
      const std::int64_t bytes = static_cast<std::int64_t>(elements * sizeof(Bfloat16));
      WaitCounts counts;
      ASSERT_TRUE(node[rank].Allreduce({{{values.data(), values.data(), bytes}}, arithmetic, 1, 1},
                                       0, stop, counts));
      EXPECT_EQ(values, std::vector<Bfloat16>(elements, 258.0f));
    });
  }
}

}  // namespace node_collectives_allreduce_test
}  // namespace horovod_opt
