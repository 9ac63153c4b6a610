#include "horovod_opt/csrc/core/plan/rebuild_buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace rebuild_buckets_test {

using Times = std::vector<std::int64_t>;

// Independent slots of 4 bytes; a bucket may have `threshold` bytes.
Plan Independent(int slots, std::int64_t threshold) {
  Plan plan = MakePlan("p", slots, {});
  plan.limits = threshold;
  return plan;
}

TEST(Rebuild, TakesTheSlotsByTime) {
  EXPECT_EQ(RebuildBuckets(Independent(4, 8), 8, Times{30, 10, 40, 20}), (Buckets{{1, 3}, {0, 2}}));
}

TEST(Rebuild, EqualTimesKeepThePlansOrder) {
  EXPECT_EQ(RebuildBuckets(Independent(5, 8), 8, Times(5, 0)), (Buckets{{0, 1}, {2, 3}, {4}}));
}

TEST(Rebuild, ASlotThatIsLargerThanTheThresholdIsAlone) {
  Plan plan = Independent(3, 8);
  plan.slots[1].bytes = 9;
  EXPECT_EQ(RebuildBuckets(plan, plan.limits, Times{1, 2, 3}), (Buckets{{0}, {1}, {2}}));
  EXPECT_EQ(RebuildBuckets(Independent(3, 0), 0, Times{1, 2, 3}), (Buckets{{0}, {1}, {2}}));
}

TEST(Rebuild, WhatIsLeftOutTakesNoRoomAndStillOrdersTheOthers) {
  EXPECT_EQ(RebuildBuckets(Independent(3, 8), 8, Times{0, 1, 2}, {0}), (Buckets{{1, 2}}));
  Plan plan = Independent(4, 100);
  plan.slots[1].after = {0};
  plan.slots[2].after = {1};
  plan.slots[3].after = {2};
  EXPECT_EQ(RebuildBuckets(plan, plan.limits, Times(4, 0), {1, 2}), (Buckets{{0}, {3}}));
}

TEST(Rebuild, NeverBeforeAPredecessor) {
  Plan plan = Independent(4, 100);
  plan.slots[1].after = {0};
  plan.slots[2].after = {1};
  // Measured before what it depends on, as the means of a few iterations can be.
  EXPECT_EQ(RebuildBuckets(plan, plan.limits, Times{30, 20, 10, 5}), (Buckets{{3, 0}, {1}, {2}}));
}

TEST(Rebuild, DependentSlotsAreNotFused) {
  Plan plan = Independent(4, 100);
  plan.slots[2].after = {0, 1};
  EXPECT_EQ(RebuildBuckets(plan, plan.limits, Times{1, 2, 3, 4}), (Buckets{{0, 1}, {2, 3}}));
  plan.slots[3].after = {2};
  EXPECT_EQ(RebuildBuckets(plan, plan.limits, Times{1, 2, 3, 4}), (Buckets{{0, 1}, {2}, {3}}));
}

TEST(Rebuild, AnotherReductionBeginsABucket) {
  Plan plan = Independent(3, 100);
  plan.slots[1].reduction.dtype = 1;
  EXPECT_EQ(RebuildBuckets(plan, plan.limits, Times{1, 2, 3}), (Buckets{{0}, {1}, {2}}));
}

TEST(Rebuild, TensorsOnOtherDevicesOfAnyRankBeginABucket) {
  Plan plan = Independent(4, 100);
  const auto same = std::make_shared<const Devices>(Devices{0, 1});
  plan.slots[0].devices = plan.slots[1].devices = same;
  // Where this rank's own tensors are does not matter: the ranks would build different buckets.
  plan.slots[2].devices = std::make_shared<const Devices>(Devices{0, 2});
  EXPECT_EQ(RebuildBuckets(plan, plan.limits, Times{1, 2, 3, 4}), (Buckets{{0, 1}, {2}, {3}}));
  plan.slots[1].reduction.device = 5;
  EXPECT_EQ(RebuildBuckets(plan, plan.limits, Times{1, 2, 3, 4}), (Buckets{{0, 1}, {2}, {3}}));
}

TEST(Rebuild, TheFirstBucketOnAGpuIsSmallAndTheOthersAreLarge) {
  const BucketLimits limits{8, 16, 4};
  Plan plan = Independent(9, 0);
  const auto on_gpu = std::make_shared<const Devices>(Devices{0, 1});
  const auto in_memory = std::make_shared<const Devices>(Devices{kMainMemory, kMainMemory});
  for (int slot = 0; slot < 9; ++slot) plan.slots[slot].devices = slot < 3 ? in_memory : on_gpu;
  EXPECT_EQ(RebuildBuckets(plan, limits, Times(9, 0)),
            (Buckets{{0, 1}, {2}, {3}, {4, 5, 6, 7}, {8}}));
  // It is the first that is reduced, whatever the graph had first.
  EXPECT_EQ(RebuildBuckets(plan, limits, Times{9, 9, 9, 9, 9, 9, 9, 1, 1}),
            (Buckets{{7}, {8}, {0, 1}, {2}, {3, 4, 5, 6}}));
  EXPECT_EQ(RebuildBuckets(plan, 8, Times(9, 0)), (Buckets{{0, 1}, {2}, {3, 4}, {5, 6}, {7, 8}}));
}

TEST(Rebuild, WhatComesMuchLaterIsNotWaitedFor) {
  EXPECT_EQ(RebuildBuckets(Independent(4, 100), 100, Times{0, 1000, 2000, 3001}),
            (Buckets{{0, 1, 2}, {3}}));
  // A tenth of a long iteration.
  EXPECT_EQ(RebuildBuckets(Independent(4, 100), 100, Times{0, 10000, 20001, 100000}),
            (Buckets{{0, 1}, {2}, {3}}));
}

TEST(Rebuild, AnyPlanKeepsItsRules) {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Plan plan = RandomPlan(random, "p");
    Times times;
    for (Slot& slot : plan.slots) {
      slot.bytes = static_cast<std::int64_t>(random() % 6);
      slot.reduction.dtype = random() % 4 == 0;
      times.push_back(static_cast<std::int64_t>(random() % 5) * 600);
    }
    const Buckets buckets = RebuildBuckets(plan, plan.limits, times);
    EXPECT_EQ(RebuildBuckets(plan, plan.limits, times), buckets);
    std::vector<int> place(plan.slots.size(), -1);  // bucket of a slot
    for (std::size_t index = 0; index < buckets.size(); ++index) {
      ASSERT_FALSE(buckets[index].empty());
      std::int64_t bytes = 0;
      for (int slot : buckets[index]) {
        EXPECT_EQ(place[slot], -1);
        place[slot] = static_cast<int>(index);
        bytes += plan.slots[slot].bytes;
        EXPECT_TRUE(plan.slots[slot].reduction.IsLike(plan.slots[buckets[index][0]].reduction));
        for (int dependency : plan.slots[slot].after) {
          EXPECT_NE(place[dependency], -1);
          EXPECT_LT(place[dependency], place[slot]);
        }
      }
      EXPECT_TRUE(bytes <= plan.limits.main_memory || buckets[index].size() == 1);
    }
    EXPECT_EQ(std::count(place.begin(), place.end(), -1), 0);
  }
}

}  // namespace rebuild_buckets_test
}  // namespace horovod_opt
