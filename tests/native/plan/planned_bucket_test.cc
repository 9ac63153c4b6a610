#include "horovod_opt/csrc/core/plan/planned_bucket.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace planned_bucket_test {

constexpr int kRanks = 3;

std::uint64_t TagOf(const Plan& plan, std::uint64_t iteration = 1, int id = 7) {
  return PlannedBucket(plan, id, plan.buckets[0], kRanks).Tag(iteration);
}

Plan Sample() {
  Plan plan = MakePlan("p", 3, {{0, 1}, {2}});
  for (Slot& slot : plan.slots) slot.reduction = {data_type::kFloat32, reduce_op::kSum, 1.0, 1.0};
  return plan;
}

// One of the things that ranks have to have in common, otherwise.
struct Change {
  std::string what;
  std::function<void(Plan& plan)> apply;
};

const std::vector<Change> kChanges{
    {"plan", [](Plan& plan) { plan.hash = "q"; }},
    {"name", [](Plan& plan) { plan.slots[1].name = "z"; }},
    {"bytes", [](Plan& plan) { plan.slots[1].bytes = 8; }},
    {"type", [](Plan& plan) { plan.slots[0].reduction.dtype = data_type::kInt32; }},
    {"operation", [](Plan& plan) { plan.slots[0].reduction.reduce_op = reduce_op::kMax; }},
    {"prescale", [](Plan& plan) { plan.slots[0].reduction.prescale = 1 + 1e-15; }},
    {"postscale", [](Plan& plan) { plan.slots[1].reduction.postscale = 0.5; }},
    {"kind", [](Plan& plan) { plan.slots[0].collective = Collective::kBroadcast; }},
    {"root", [](Plan& plan) { plan.slots[0].root = 1; }},
    {"rows", [](Plan& plan) { plan.slots[0].rows = 2; }},
    {"order", [](Plan& plan) { plan.buckets[0] = {1, 0}; }},
    {"one more", [](Plan& plan) { plan.buckets = {{0, 1, 2}}; }},
    {"one less", [](Plan& plan) { plan.buckets[0] = {0}; }},
    {"the same bytes, shared out otherwise",
     [](Plan& plan) {
       plan.slots[0].bytes = 8;
       plan.slots[1].bytes = 0;
     }},
};

TEST(PlannedBucket, WhateverRanksDisagreeAboutGivesAnotherTag) {
  std::set<std::uint64_t> tags{TagOf(Sample())};
  for (const Change& change : kChanges) {
    Plan plan = Sample();
    change.apply(plan);
    EXPECT_TRUE(tags.insert(TagOf(plan)).second) << change.what;
  }
  EXPECT_TRUE(tags.insert(TagOf(Sample(), 1, 8)).second) << "bucket ID";
  for (std::uint64_t iteration = 2; iteration < 100000; ++iteration)
    ASSERT_TRUE(tags.insert(TagOf(Sample(), iteration)).second) << "iteration " << iteration;
}

TEST(PlannedBucket, WhatIsARanksOwnLeavesTheTag) {
  Plan plan = Sample();
  plan.name = "another function";
  plan.limits = 1 << 20;
  for (Slot& slot : plan.slots) {
    slot.key += 1000;
    slot.after = {0};
    slot.reduction.device = 3;
  }
  EXPECT_EQ(TagOf(plan), TagOf(Sample()));
}

TEST(PlannedBucket, AnAverageIsDividedByTheRanks) {
  Plan plan = Sample();
  for (Slot& slot : plan.slots) slot.reduction = {data_type::kFloat32, reduce_op::kAverage, 1, 6};
  EXPECT_EQ(PlannedBucket(plan, 0, {0, 1}, kRanks).postscale, 2);
  EXPECT_EQ(PlannedBucket(Sample(), 0, {0, 1}, kRanks).postscale, 1);
}

TEST(PlannedBucket, ARankThatHasJoinedGivesZeros) {
  const Plan plan = Sample();
  const PlannedBucket bucket(plan, 0, {0, 1}, kRanks);
  std::vector<ArrivalPtr> arrivals(2);
  arrivals[1] = std::make_unique<Arrival>();
  const float in = 5;
  float out = 0;
  arrivals[1]->segment = {&in, &out, 4};
  float contributed[2] = {-1, -1};
  const auto reduction = bucket.ReductionOf(arrivals);
  reduction->Contribute(0, 8, reinterpret_cast<char*>(contributed));
  EXPECT_EQ(contributed[0], 0);
  EXPECT_EQ(contributed[1], 5);
}

// They are reduced in another way, or not at all.
TEST(PlannedBucket, WithoutArithmeticThereIsNoReduction) {
  const std::vector<Change> changes{
      {"Adasum", [](Plan& plan) { plan.slots[0].reduction.reduce_op = reduce_op::kAdasum; }},
      {"a type without sums", [](Plan& plan) { plan.slots[0].reduction.dtype = 9; }},
      {"on a GPU", [](Plan& plan) { plan.slots[0].reduction.device = 0; }},
      {"a call", [](Plan& plan) { plan.slots[0].collective = Collective::kAllgather; }},
      {"no whole element", [](Plan& plan) { plan.slots[0].bytes = 6; }},
  };
  const std::vector<ArrivalPtr> zeros(1);
  const Plan sample = Sample();
  EXPECT_NE(PlannedBucket(sample, 0, {0}, kRanks).ReductionOf(zeros), nullptr);
  for (const Change& change : changes) {
    Plan plan = Sample();
    change.apply(plan);
    EXPECT_EQ(PlannedBucket(plan, 0, {0}, kRanks).ReductionOf(zeros), nullptr) << change.what;
  }
}

}  // namespace planned_bucket_test
}  // namespace horovod_opt
