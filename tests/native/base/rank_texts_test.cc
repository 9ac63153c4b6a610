#include "horovod_opt/csrc/core/base/rank_texts.h"

#include <gtest/gtest.h>

namespace horovod_opt {
namespace rank_texts_test {

using Ranks = std::vector<int>;

TEST(SharedText, IsTheTextAndCopiesShareIt) {
  const SharedText text("some"), copy = text;
  EXPECT_EQ(&text.str(), &copy.str());
  EXPECT_EQ(static_cast<const std::string&>(copy), "some");
  EXPECT_EQ(SharedText().str(), "");
}

TEST(Distinct, TextsAreInTheOrderOfTheFirstThatHasThem) {
  const SharedText b("b");
  // Equal ones count as one whether they are shared or not.
  const auto distinct = Distinct({{1, b}, {2, SharedText("a")}, {4, b}, {7, SharedText("b")}});
  ASSERT_EQ(distinct.size(), 2u);
  EXPECT_EQ(distinct[0].first.str(), "b");
  EXPECT_EQ(distinct[0].second, (Ranks{1, 4, 7}));
  EXPECT_EQ(distinct[1].first.str(), "a");
  EXPECT_EQ(distinct[1].second, Ranks{2});
}

TEST(Distinct, OfNoneThereAreNone) { EXPECT_TRUE(Distinct({}).empty()); }

TEST(Ranges, JoinsNeighbours) {
  EXPECT_EQ(Ranges({}), "none");
  EXPECT_EQ(Ranges({7}), "7");
  EXPECT_EQ(Ranges({0, 1}), "0-1");
  EXPECT_EQ(Ranges({0, 2, 3, 4, 5}), "0, 2-5");
  EXPECT_EQ(Ranges({0, 1, 3, 5, 6}), "0-1, 3, 5-6");
}

TEST(Ranges, NounFollowsTheCount) {
  EXPECT_EQ(Ranges("rank", {3}), "rank 3");
  EXPECT_EQ(Ranges("rank", {3, 4}), "ranks 3-4");
}

}  // namespace rank_texts_test
}  // namespace horovod_opt
