// NodeCollectives where there are several groups: an allreduce in two halves.
#include <stdexcept>
#include <string>
#include <tuple>

#include "horovod_opt/csrc/core/shared_memory/node_barrier.h"
#include "tests/native/reduction/node_collectives_case.h"

namespace horovod_opt {
namespace node_collectives_parts_test {

// Reduces over the ranks with one number in their groups, in the order of groups.
class GroupAllreduce {
 public:
  explicit GroupAllreduce(int groups) : groups_(groups), parts_(groups), barriers_(groups) {}

  void Reduce(int group, void* data, std::int64_t count, const Arithmetic& arithmetic) {
    parts_[group] = {data, count};
    Meet(group);
    const std::size_t bytes = static_cast<std::size_t>(count) * arithmetic.element;
    const char* const first = static_cast<const char*>(parts_[0].data);
    std::vector<char> sum(first, first + bytes);
    for (int member = 1; member < groups_; ++member) {
      EXPECT_EQ(parts_[member].count, parts_[0].count);
      const void* const inputs[] = {sum.data(), parts_[member].data};
      arithmetic.reduce(sum.data(), inputs, 2, count);
    }
    Meet(group);
    std::memcpy(data, sum.data(), bytes);
    if (group == 0) elements_ += count;
  }

  std::int64_t elements() const { return elements_; }  // that have passed through

 private:
  struct Part {
    void* data;
    std::int64_t count;
  };

  void Meet(int group) {
    const std::atomic<bool> never{false};
    WaitCounts counts;
    ASSERT_TRUE(barrier_.As<NodeBarrier>().Pass(++barriers_[group], groups_, never, counts));
  }

  const int groups_;
  const Zeros barrier_{sizeof(NodeBarrier)};
  std::vector<Part> parts_;
  std::vector<std::uint64_t> barriers_;  // passed, by group
  std::int64_t elements_ = 0;
};

// Groups and ranks of each.
class NodeParts : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  NodeParts() {
    for (int group = 0; group < groups_; ++group) {
      nodes_.push_back(std::make_unique<Node>(ranks_));
    }
    for (int i = 0; i < ranks_; ++i)
      allreduces_.push_back(std::make_unique<GroupAllreduce>(groups_));
  }

  // What the rank gives to Allreduce().
  Case::Cross Cross(int rank, const Arithmetic& arithmetic) {
    return [this, rank, &arithmetic](void* data, std::int64_t count) {
      EXPECT_GT(count, 0);
      allreduces_[rank % ranks_]->Reduce(rank / ranks_, data, count, arithmetic);
    };
  }

  NodeCollectives& Of(int rank) { return (*nodes_[rank / ranks_])[rank % ranks_]; }

  Case MakeCase(const Arithmetic& arithmetic, const std::vector<std::int64_t>& sizes,
                double prescale, double postscale, unsigned seed) {
    for (std::int64_t elements : sizes) elements_ += elements;
    return Case(ranks_, arithmetic, sizes, prescale, postscale, seed, groups_);
  }

  // All ranks of all groups perform all cases back to back, each at its own pace.
  void Perform(std::vector<Case>& cases, const Arithmetic& arithmetic) {
    OnRanks(groups_ * ranks_, [&](int rank) {
      const Case::Cross cross = Cross(rank, arithmetic);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        ASSERT_TRUE(cases[i].RunInParts(Of(rank), rank, i, never_, cross));
      }
    });
    for (const Case& test_case : cases) {
      for (int rank = 0; rank < groups_ * ranks_; ++rank) test_case.Check(rank);
    }
    std::int64_t passed = 0;
    for (const auto& allreduce : allreduces_) passed += allreduce->elements();
    EXPECT_EQ(passed, elements_) << "each element goes over the network once";
  }

  const int groups_ = std::get<0>(GetParam());
  const int ranks_ = std::get<1>(GetParam());
  const std::atomic<bool> never_{false};
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<GroupAllreduce>> allreduces_;  // by number in the group
  std::int64_t elements_ = 0;                                // of all cases
};

INSTANTIATE_TEST_SUITE_P(GroupsAndRanks, NodeParts,
                         testing::Values(std::make_tuple(2, 1), std::make_tuple(2, 2),
                                         std::make_tuple(2, 3), std::make_tuple(3, 2)));

// Sizes that are flat within a node, those of several chunks, and those that do not divide.
TEST_P(NodeParts, OneTensorOfAnySize) {
  std::vector<Case> cases;
  for (std::int64_t elements : {0, 1, 2, 3, 17, 145, 1023, 1024, 1025, 2047, 4099, 20011}) {
    cases.push_back(MakeCase(kFloats, {elements}, 1, 1, 7));
  }
  Perform(cases, kFloats);
}

TEST_P(NodeParts, Integers) {
  const Arithmetic arithmetic{sizeof(std::uint32_t), AddSlowly<std::uint32_t>,
                              Scale<std::uint32_t>};
  std::vector<Case> cases;
  for (std::int64_t elements : {1, 333, 7001}) {
    cases.push_back(MakeCase(arithmetic, {elements, 5}, 1, 1, 11));
  }
  Perform(cases, arithmetic);
}

// Small and large calls, many and few segments, empty ones too, some without input or output, with
// and without factors.
TEST_P(NodeParts, RandomCallsBackToBack) {
  std::mt19937 random(42);
  std::vector<Case> cases;
  for (unsigned i = 0; i < 100; ++i) {
    const std::int64_t largest = std::int64_t{1} << random() % 13;
    std::vector<std::int64_t> sizes(random() % 12);
    for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(random()) % largest;
    const double prescale = random() % 2 == 0 ? 1 : 1.0 / 3;
    const double postscale = random() % 2 == 0 ? 1 : 0.7;
    cases.push_back(MakeCase(kFloats, sizes, prescale, postscale, i));
  }
  Perform(cases, kFloats);
}

// Both halves share the memory with other calls. All of it is the first rank's part.
TEST_P(NodeParts, HalvesWithOtherCallsInBetween) {
  constexpr std::size_t kElements = 3001;
  const std::int64_t bytes = kElements * sizeof(float);
  OnRanks(groups_ * ranks_, [&](int rank) {
    const auto own = static_cast<float>(rank % ranks_ + 1);
    const auto sum = static_cast<float>(ranks_ * (ranks_ + 1) / 2);
    std::vector<float> values, other_values, part(kElements);
    const std::vector<std::int64_t> ends(static_cast<std::size_t>(ranks_), bytes);
    char* const sums = reinterpret_cast<char*>(part.data());
    NodeCollectives& node = Of(rank);
    WaitCounts counts;
    for (std::uint64_t tag = 0; tag < 5; ++tag) {
      values.assign(kElements, own);
      other_values.assign(kElements, own);
      const BucketReduction bucket({{values.data(), values.data(), bytes}}, kFloats, 2, 0.5);
      const BucketReduction member({{other_values.data(), other_values.data(), bytes}}, kFloats, 1,
                                   1);
      ASSERT_TRUE(node.ReduceParts(bucket, ends, sums, tag, never_, counts));
      ASSERT_TRUE(node.Allreduce(member, tag, never_, counts));
      ASSERT_EQ(values[0], own) << "the outputs are written in the second half";
      bucket.ScaleSum(sums, rank % ranks_ == 0 ? bytes : 0);
      ASSERT_TRUE(node.GatherParts(bucket, ends, sums, tag, never_, counts));
      ASSERT_EQ(values, std::vector<float>(kElements, sum)) << "rank " << rank;
      ASSERT_EQ(other_values, std::vector<float>(kElements, sum)) << "rank " << rank;
    }
  });
}

TEST(NodePartsTags, RanksThatDisagreeAreTold) {
  Node node(2);
  const std::atomic<bool> never{false};
  OnRanks(2, [&](int rank) {
    float value = 1, part = -1;
    const BucketReduction bucket({{&value, &value, 4}}, kFloats, 1, 1);
    const std::vector<std::int64_t> ends{4, 4};
    char* const sums = reinterpret_cast<char*>(&part);
    const auto tag = static_cast<std::uint64_t>(rank);
    WaitCounts counts;
    EXPECT_THROW(node[rank].ReduceParts(bucket, ends, sums, tag, never, counts), std::logic_error);
    EXPECT_THROW(node[rank].GatherParts(bucket, ends, sums, tag, never, counts), std::logic_error);
    EXPECT_EQ(value, 1);
    EXPECT_EQ(part, -1);
  });
}

}  // namespace node_collectives_parts_test
}  // namespace horovod_opt
