#include "horovod_opt/csrc/core/plan/plan.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace horovod_opt {
namespace plan_test {

const std::string kPlan = "plan\tabc\t1024\t3\ttrain step\n";
const std::string kSlotA = "slot\t11\t400\t7\t1\t1.0\t0.5\t-\tgrads/a\n";
const std::string kSlotB = "slot\t12\t0\t7\t1\t1.0\t0.5\t-\tgrads/b 2\n";
const std::string kSlotC = "slot\t7\t8\t6\t1\t1e-3\t1.0\t0,1\tc\n";
const std::string kBuckets = "bucket\t1,0\nbucket\t2\n";

std::string ErrorOf(const std::string& text) {
  try {
    ParsePlan(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(Plan, EveryFieldIsRead) {
  const Plan plan = ParsePlan(kPlan + kSlotA + kSlotB + kSlotC + kBuckets);
  EXPECT_EQ(plan.hash, "abc");
  EXPECT_TRUE(plan.limits == BucketLimits(1024));
  EXPECT_TRUE(ParsePlan("plan\tabc\t9,0,7\t3\tn\n" + kSlotA + "bucket\t0\n").limits ==
              BucketLimits(9, 0, 7));
  EXPECT_EQ(plan.process_set, 3);
  EXPECT_EQ(plan.name, "train step");
  EXPECT_EQ(plan.buckets, (Buckets{{1, 0}, {2}}));
  ASSERT_EQ(plan.slots.size(), 3u);
  EXPECT_EQ(plan.slots[0].key, 11);
  EXPECT_EQ(plan.slots[0].bytes, 400);
  EXPECT_EQ(plan.slots[0].reduction.dtype, 7);
  EXPECT_EQ(plan.slots[0].reduction.reduce_op, 1);
  EXPECT_EQ(plan.slots[0].reduction.prescale, 1.0);
  EXPECT_EQ(plan.slots[0].reduction.postscale, 0.5);
  EXPECT_EQ(plan.slots[0].after, std::vector<int>{});
  EXPECT_EQ(plan.slots[0].name, "grads/a");
  EXPECT_EQ(plan.slots[1].bytes, 0);
  EXPECT_EQ(plan.slots[1].name, "grads/b 2");
  EXPECT_EQ(plan.slots[2].key, 7);
  EXPECT_EQ(plan.slots[2].reduction.dtype, 6);
  EXPECT_EQ(plan.slots[2].reduction.prescale, 1e-3);
  EXPECT_EQ(plan.slots[2].after, (std::vector<int>{0, 1}));
}

TEST(Plan, ABadLineIsNamed) {
  const char* const lines[] = {
      "",
      "plan",
      "plan\tabc\t1024\t0",
      "plan\tabc\t1 KiB\t0\tname",
      "plan\tabc\t-1\t0\tname",
      "plan\tabc\t1024\t-1\tname",
      "plan\tabc\t1024\tall\tname",
      "plan\tabc\t1024\t0\tname\tmore",
      "slot",
      "slot\t11\t400\t7\t1\t1.0\t0.5\t-",
      "slot\t11\t400\t7\t1\t1.0\t0.5\t-\ta\tmore",
      "slot\tx\t400\t7\t1\t1.0\t0.5\t-\ta",
      "slot\t0\t400\t7\t1\t1.0\t0.5\t-\ta",
      "slot\t-1\t400\t7\t1\t1.0\t0.5\t-\ta",
      "slot\t99999999999999999999\t400\t7\t1\t1.0\t0.5\t-\ta",
      "slot\t11\t\t7\t1\t1.0\t0.5\t-\ta",
      "slot\t11\t4.5\t7\t1\t1.0\t0.5\t-\ta",
      "slot\t11\t-4\t7\t1\t1.0\t0.5\t-\ta",
      "slot\t11\t400\tfloat32\t1\t1.0\t0.5\t-\ta",
      "slot\t11\t400\t7\tsum\t1.0\t0.5\t-\ta",
      "slot\t11\t400\t7\t1\tone\t0.5\t-\ta",
      "slot\t11\t400\t7\t1\t1.0\t0.5x\t-\ta",
      "slot\t11\t400\t7\t1\t1.0\t0.5\t3\ta",  // itself
      "slot\t11\t400\t7\t1\t1.0\t0.5\t0,-1\ta",
      "slot\t11\t400\t7\t1\t1.0\t0.5\t0;1\ta",
      "bucket",
      "bucket\t",
      "bucket\t3",
      "bucket\t-1",
      "bucket\t0,a",
      "bucket\t0 1",
      "bucket\t0\t1",
      "Bucket\t0",
      "lots\t0",
  };
  for (const std::string line : lines) {
    const std::string text = kPlan + kSlotA + kSlotB + kSlotC + line + "\n" + kBuckets;
    EXPECT_EQ(ErrorOf(text), "not a line of a plan: " + line);
  }
}

TEST(Plan, BucketsHoldEverySlotOnce) {
  const std::string slots = kPlan + kSlotA + kSlotB;
  EXPECT_EQ(ErrorOf(slots + "bucket\t0\nbucket\t1\n"), "none");
  EXPECT_EQ(ErrorOf(slots + "bucket\t0\n"), "not in exactly one bucket: grads/b 2");
  EXPECT_EQ(ErrorOf(slots + "bucket\t0,1\nbucket\t0\n"), "not in exactly one bucket: grads/a");
  EXPECT_EQ(ErrorOf(slots + "bucket\t0,1,1\n"), "not in exactly one bucket: grads/b 2");
  EXPECT_EQ(ErrorOf(slots + "bucket\t0,1\nbucket\t-\n"), "a plan has an empty bucket");
}

TEST(Plan, KeysAreDistinct) {
  const std::string again = "slot\t11\t8\t7\t1\t1.0\t0.5\t-\tagain\n";
  EXPECT_EQ(ErrorOf(kPlan + kSlotA + again + "bucket\t0,1\n"),
            "has the key of another tensor: again");
}

TEST(Plan, ABucketHasOneReduction) {
  EXPECT_EQ(ErrorOf(kPlan + kSlotA + kSlotB + kSlotC + "bucket\t0,1,2\n"),
            "a bucket mixes reductions: c");
}

TEST(Plan, NothingToPlan) {
  EXPECT_EQ(ErrorOf(""), "a plan is empty");
  EXPECT_EQ(ErrorOf(kPlan), "a plan is empty");
  EXPECT_EQ(ErrorOf(kSlotA + "bucket\t0\n"), "a plan is empty");
}

TEST(Plan, DifferenceFromASlot) {
  const Plan plan = ParsePlan(kPlan + kSlotA + "bucket\t0\n");
  const Slot& slot = plan.slots[0];
  EXPECT_EQ(Difference(slot, 400, slot.reduction), "");
  EXPECT_EQ(Difference(slot, 404, slot.reduction), "it has 404 bytes, not the planned 400");
  for (const Reduction& reduction : {Reduction{6, 1, 1.0, 0.5}, Reduction{7, 2, 1.0, 0.5},
                                     Reduction{7, 1, 2.0, 0.5}, Reduction{7, 1, 1.0, 1.0}}) {
    EXPECT_EQ(Difference(slot, 400, reduction),
              "its dtype, reduce operation or scaling is not the planned one");
  }
}

}  // namespace plan_test
}  // namespace horovod_opt
