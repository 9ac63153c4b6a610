#include "horovod_opt/csrc/core/base/shared_text.h"

#include <gtest/gtest.h>

namespace horovod_opt {
namespace {

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
  const auto found = Distinct({{1, b}, {2, SharedText("a")}, {4, b}, {7, SharedText("b")}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].first.str(), "b");
  EXPECT_EQ(found[0].second, (Ranks{1, 4, 7}));
  EXPECT_EQ(found[1].first.str(), "a");
  EXPECT_EQ(found[1].second, Ranks{2});
}

TEST(Distinct, OfNoneThereAreNone) { EXPECT_TRUE(Distinct({}).empty()); }

}  // namespace
}  // namespace horovod_opt
