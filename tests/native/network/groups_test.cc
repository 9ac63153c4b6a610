#include "horovod_opt/csrc/core/network/groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace horovod_opt {
namespace groups_test {

using Ranks = std::vector<int>;

TEST(Groups, OneNodeIsOneGroup) {
  for (int rank = 0; rank < 3; ++rank) {
    const Groups groups = MakeGroups({7, 7, 7}, 0, rank);
    EXPECT_EQ(groups.ranks, (Ranks{0, 1, 2}));
    EXPECT_EQ(groups.index, rank);
    EXPECT_EQ(groups.cross, Ranks{rank});
    EXPECT_EQ(groups.group, 0);
    EXPECT_TRUE(groups.Alone());
  }
}

TEST(Groups, ARankAloneInTheJob) {
  const Groups groups = MakeGroups({0}, 0, 0);
  EXPECT_EQ(groups.ranks, Ranks{0});
  EXPECT_TRUE(groups.Alone());
}

TEST(Groups, EqualNodesAreAGroupEach) {
  const Groups groups = MakeGroups({0, 0, 0, 3, 3, 3}, 0, 4);
  EXPECT_EQ(groups.ranks, (Ranks{3, 4, 5}));
  EXPECT_EQ(groups.index, 1);
  EXPECT_EQ(groups.cross, (Ranks{1, 4}));
  EXPECT_EQ(groups.all, (Ranks{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(groups.group, 1);
  EXPECT_FALSE(groups.Alone());
}

TEST(Groups, UnequalNodesHaveGroupsOfTheirCommonDivisor) {
  const std::vector<int> four_and_two{0, 0, 0, 0, 4, 4};
  const Groups second = MakeGroups(four_and_two, 0, 3);
  EXPECT_EQ(second.ranks, (Ranks{2, 3}));
  EXPECT_EQ(second.cross, (Ranks{1, 3, 5}));
  EXPECT_EQ(second.group, 1);
  EXPECT_EQ(MakeGroups(four_and_two, 0, 4).ranks, (Ranks{4, 5}));

  const Groups single = MakeGroups({0, 0, 0, 3, 3}, 0, 3);
  EXPECT_EQ(single.ranks, Ranks{3});
  EXPECT_EQ(single.index, 0);
  EXPECT_EQ(single.cross, (Ranks{0, 1, 2, 3, 4}));
  EXPECT_EQ(single.group, 3);
}

TEST(Groups, AtMostSoManyRanksThatDivideTheNode) {
  const std::vector<int> six(6, 0);
  EXPECT_EQ(MakeGroups(six, 2, 5).ranks, (Ranks{4, 5}));
  EXPECT_EQ(MakeGroups(six, 3, 5).ranks, (Ranks{3, 4, 5}));
  EXPECT_EQ(MakeGroups(six, 4, 5).ranks, (Ranks{3, 4, 5}));
  EXPECT_EQ(MakeGroups(six, 5, 0).ranks, (Ranks{0, 1, 2}));
  EXPECT_EQ(MakeGroups(six, 1, 5).ranks, Ranks{5});
  for (const int no_limit : {0, 6, 7, 100}) {
    EXPECT_EQ(MakeGroups(six, no_limit, 5).ranks.size(), 6u) << no_limit;
  }
}

TEST(Groups, RanksThatGoRoundTheNodes) {
  const std::vector<int> nodes{0, 1, 0, 1, 0, 1};
  const Groups groups = MakeGroups(nodes, 0, 3);
  EXPECT_EQ(groups.ranks, (Ranks{1, 3, 5}));
  EXPECT_EQ(groups.index, 1);
  EXPECT_EQ(groups.cross, (Ranks{2, 3}));
  EXPECT_EQ(groups.all, (Ranks{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(groups.group, 1);
}

// Some nodes with some ranks each, the ranks in any order.
std::vector<int> RandomNodes(std::mt19937& random) {
  std::vector<int> node_of;
  const int unit = 1 + static_cast<int>(random() % 3);  // so that groups are often larger than 1
  for (int node = 1 + static_cast<int>(random() % 5); node > 0; --node) {
    const int name = static_cast<int>(random() % 1000) * 5 + node;
    node_of.insert(node_of.end(), unit * (1 + random() % 4), name);
  }
  std::shuffle(node_of.begin(), node_of.end(), random);
  return node_of;
}

std::size_t ExpectedSize(const std::vector<int>& node_of, std::size_t most) {
  std::map<int, std::size_t> counts;
  for (int node : node_of) ++counts[node];
  std::size_t size = 1;
  for (std::size_t next = 2; next <= node_of.size(); ++next) {
    const auto divides = [&](const auto& node) { return node.second % next == 0; };
    const bool fits = std::all_of(counts.begin(), counts.end(), divides);
    if (fits && (most == 0 || next <= most)) size = next;
  }
  return size;
}

// What the ranks find, each for itself, fits together.
void ExpectConsistent(const std::vector<int>& node_of, int most) {
  const std::size_t count = node_of.size();
  std::vector<Groups> all;
  for (std::size_t rank = 0; rank < count; ++rank) {
    all.push_back(MakeGroups(node_of, most, static_cast<int>(rank)));
  }
  const std::size_t size = ExpectedSize(node_of, static_cast<std::size_t>(most));
  for (std::size_t rank = 0; rank < count; ++rank) {
    const Groups& own = all[rank];
    ASSERT_EQ(own.ranks.size(), size);
    ASSERT_EQ(own.cross.size(), count / size);
    ASSERT_EQ(own.Alone(), own.cross.size() == 1);
    ASSERT_TRUE(std::is_sorted(own.ranks.begin(), own.ranks.end()));
    ASSERT_EQ(own.ranks.at(own.index), static_cast<int>(rank));
    ASSERT_EQ(own.cross.at(own.group), static_cast<int>(rank));
    ASSERT_EQ(own.all, all[0].all);
    ASSERT_EQ(own.all.at(own.group * size + own.index), static_cast<int>(rank));
    std::vector<int> met(count);
    for (const int member : own.ranks) {
      const Groups& peer = all.at(member);
      ASSERT_EQ(node_of[member], node_of[rank]);
      ASSERT_EQ(peer.ranks, own.ranks);
      ASSERT_EQ(peer.group, own.group);
      for (const int counterpart : peer.cross) ++met.at(counterpart);
    }
    ASSERT_EQ(met, std::vector<int>(count, 1)) << "each rank is in the list of one index";
    for (std::size_t group = 0; group < own.cross.size(); ++group) {
      const Groups& peer = all.at(own.cross[group]);
      ASSERT_EQ(peer.cross, own.cross);
      ASSERT_EQ(peer.index, own.index);
      ASSERT_EQ(peer.group, static_cast<int>(group));
    }
  }
}

TEST(Groups, WhatAllRanksFindFitsTogether) {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    const std::vector<int> node_of = RandomNodes(random);
    const int most = static_cast<int>(random() % 6);
    ExpectConsistent(node_of, most);
    if (HasFatalFailure()) {
      FAIL() << "at most " << most << ", nodes " << testing::PrintToString(node_of);
    }
  }
}

}  // namespace groups_test
}  // namespace horovod_opt
