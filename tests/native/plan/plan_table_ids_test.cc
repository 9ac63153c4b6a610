// Which plans have bucket IDs, where there are not enough for all.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "tests/native/plan/plan_table_case.h"

namespace horovod_opt {
namespace plan_table_ids_test {

TEST_F(PlanTableTest, EachPlanHasBucketIdsOfItsOwn) {
  Activate(MakePlan("q", 2, {{0}, {1}}, 1));
  Activate(MakePlan("p", 3, {{0, 1}, {2}}, 11));
  EXPECT_EQ(Arrive(13), Route::kPlanned);
  EXPECT_EQ(Arrive(2), Route::kPlanned);
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(Arrive(11), Route::kPlanned);
  EXPECT_EQ(announced_, (std::vector<int>{3, 1, 0}));
  EXPECT_EQ(plans_.Take(3).bucket->plan->hash, "p");
  EXPECT_EQ(plans_.Take(1).bucket->plan->hash, "q");
}

TEST_F(PlanTableTest, PlansInUseKeepTheirBucketIds) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("p").state, "active") << "used a moment ago";
  EXPECT_EQ(ReportOf("q").state, "ready");
  EXPECT_EQ(ReportOf("q").reason, "plans in use have 3 of 5 buckets, and this one needs 3");
  EXPECT_EQ(Arrive(11), Route::kNegotiated);
  Activate(MakePlan("r", 2, {{0}, {1}}, 21));
  EXPECT_EQ(ReportOf("r").state, "active");
}

TEST_F(PlanTableTest, WhatWasNotUsedForTheLongestTimeGivesItsBucketIdsToOthers) {
  const Plan p = MakePlan("p", 2, {{0}, {1}}, 1), q = MakePlan("q", 2, {{0}, {1}}, 11);
  const Plan r = MakePlan("r", 2, {{0}, {1}}, 21);
  Activate(q);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  Activate(p);
  Planned(p);
  later_ = std::chrono::seconds(5);
  Activate(r);
  EXPECT_EQ(ReportOf("q").state, "ready");
  EXPECT_EQ(ReportOf("q").reason,
            "its place was given to other plans; active again after its next iteration");
  EXPECT_EQ(ReportOf("p").state, "active");
  Planned(p);
  Planned(r);
  EXPECT_FALSE(plans_.WantsVote());
  EXPECT_EQ(Arrive(11), Route::kNegotiated);
  EXPECT_TRUE(plans_.WantsVote());
  HoldVote();
  EXPECT_EQ(ReportOf("q").state, "active");
  EXPECT_EQ(Arrive(12), Route::kNegotiated) << "of the iteration that was begun before";
  Planned(q);
}

// Invariant 5 of consensus.h.
TEST_F(PlanTableTest, WhatIsUnderWayDoesNotGiveItsBucketIds) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Arrive(1);
  later_ = std::chrono::seconds(5);
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("p").state, "active");
  EXPECT_EQ(ReportOf("q").state, "ready");
}

TEST_F(PlanTableTest, AnEndedPlanGivesItsBucketIdsOnceItsBucketsAreReduced) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Arrive(1);  // its bucket ID is 0
  plans_.Reject("p", "no more");
  HoldVote();
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("q").state, "ready") << "one of p's is complete and not reduced";
  plans_.MarkReduced(plans_.Take(0));
  HoldVote();
  EXPECT_EQ(ReportOf("q").state, "active");
}

TEST_F(PlanTableTest, NoBucketIdsForNewBucketsKeepsTheOldOnes) {
  times_ = true;
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}));
  for (int iteration = 0; iteration < kTimedIterations; ++iteration) {
    for (int slot = 0; slot < 3; ++slot) {
      Arrive(1 + slot);
      plans_.MarkReduced(plans_.Take(slot));
    }
  }
  EXPECT_TRUE(plans_.WantsVote());
  const std::string slow = ToRow({Says(PlanState::kActive, 7)});
  const auto timed = [](std::vector<std::int64_t> times) {
    Vote vote = Says(PlanState::kActive, 7);
    vote.times = std::move(times);
    vote.limits = 8;
    return ToRow({vote});
  };
  // All apart: 3 new buckets where 2 bucket IDs are left.
  plans_.VoteRow(true, true);
  plans_.Apply(ByRank({timed({0, 5000, 10000}), slow}));
  EXPECT_EQ(ReportOf("p").buckets, (Buckets{{0}, {1}, {2}}));
  EXPECT_EQ(ReportOf("p").state, "active");
  // Fused: the threshold allows two of them.
  plans_.VoteRow(true, true);
  plans_.Apply(ByRank({timed({20, 10, 0}), slow}));
  EXPECT_EQ(ReportOf("p").buckets, (Buckets{{2, 1}, {0}}));
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(announced_.back(), 4);
}

TEST_F(PlanTableTest, RestartOfAllPlansWhichKeepTheirBucketIds) {
  Activate(MakePlan("p", 1, {{0}}, 1));
  plans_.Add(MakePlan("q", 1, {{0}}, 11));
  for (int epoch = 0; epoch < kCapacity; ++epoch) {
    plans_.Join();
    HoldVote();
    EXPECT_EQ(ReportOf("p").state, "warming up");
    plans_.Restart();
    for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
      for (std::int64_t key : {1, 11}) EXPECT_EQ(Arrive(key), Route::kNegotiated);
    }
    HoldVote();
    EXPECT_EQ(ReportOf("p").state, "active");
    EXPECT_EQ(ReportOf("q").state, "active");
  }
}

}  // namespace plan_table_ids_test
}  // namespace horovod_opt
