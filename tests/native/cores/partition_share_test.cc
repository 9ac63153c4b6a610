#include "horovod_opt/csrc/core/cores/partition.h"

#include <gtest/gtest.h>

namespace horovod_opt {
namespace partition_share_test {

// CPU and CPU + 4 are siblings.
const std::map<int, int> kFourCoresWithSmt{{0, 0}, {1, 1}, {2, 2}, {3, 3},
                                           {4, 0}, {5, 1}, {6, 2}, {7, 3}};
const Cpus kAll{0, 1, 2, 3, 4, 5, 6, 7};

std::vector<Cpus> Shares(const std::vector<Cpus>& masks) {
  std::vector<Cpus> shares;
  for (std::size_t rank = 0; rank < masks.size(); ++rank) {
    shares.push_back(ShareOf(masks, kFourCoresWithSmt, rank));
  }
  return shares;
}

using Expected = std::vector<Cpus>;

TEST(Share, OfOneRankIsAll) { EXPECT_EQ(Shares({kAll}), Expected{kAll}); }

TEST(Share, EqualMasksAreSharedByCore) {
  EXPECT_EQ(Shares({kAll, kAll}), (Expected{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(Shares({kAll, kAll, kAll, kAll}), (Expected{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(Share, LeftoverCoresGoToTheFirst) {
  EXPECT_EQ(Shares({kAll, kAll, kAll}), (Expected{{0, 1, 4, 5}, {2, 6}, {3, 7}}));
}

TEST(Share, MoreRanksThanCoresTakeThemByTurns) {
  const Cpus two{5, 1, 2, 6};
  EXPECT_EQ(Shares({two, two, two}), (Expected{{1, 5}, {2, 6}, {1, 5}}));
}

TEST(Share, OfARankThatIsBoundIsWhatItWasBoundTo) {
  EXPECT_EQ(Shares({{0, 4}, {1, 5}}), (Expected{{0, 4}, {1, 5}}));
  EXPECT_EQ(Shares({{0, 1}, {2, 3}, {0, 1}}), (Expected{{0}, {2, 3}, {1}}));
}

TEST(Share, MasksThatOverlapWithoutBeingEqualAreNotShared) {
  EXPECT_EQ(Shares({{0, 1}, {1, 2}}), (Expected{{0, 1}, {1, 2}}));
}

TEST(Share, CpusOfWhichNothingIsKnownAreCores) {
  const Cpus unknown{8, 9};
  EXPECT_EQ(Shares({unknown, unknown}), (Expected{{8}, {9}}));
}

}  // namespace partition_share_test
}  // namespace horovod_opt
