#include "horovod_opt/csrc/core/base/ranges.h"

#include <gtest/gtest.h>

namespace horovod_opt {
namespace {

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

}  // namespace
}  // namespace horovod_opt
