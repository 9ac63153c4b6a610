// Graphs come and go: which plan their keys belong to.
#include <gtest/gtest.h>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "tests/native/plan/plan_table_case.h"

namespace horovod_opt {
namespace plan_table_graphs_test {

TEST_F(PlanTableTest, AKnownPlanOnlyGetsMoreKeys) {
  Activate(MakePlan("p", 2, {{0, 1}}, 1));
  plans_.Add(MakePlan("p", 2, {{0, 1}}, 11));  // traced again
  EXPECT_EQ(plans_.Reports().size(), 1u);
  EXPECT_EQ(Arrive(12), Route::kPlanned);
  EXPECT_EQ(Arrive(2), Route::kOverlaps);
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(announced_, std::vector<int>{0});
}

TEST_F(PlanTableTest, AKeyOfAnotherPlanEndsBoth) {
  Activate(MakePlan("p", 2, {{0, 1}}, 1));
  EXPECT_FALSE(plans_.WantsVote());
  plans_.Add(MakePlan("q", 2, {{0, 1}}, 2));
  EXPECT_TRUE(plans_.WantsVote());
  EXPECT_EQ(Arrive(1), Route::kDeferred);
  const auto outcome = HoldVote();
  EXPECT_EQ(outcome.rejections,
            (std::vector<std::string>{"plan p (p): rank 0: 'a' also belongs to plan q",
                                      "plan q (q): rank 0: 'a' also belongs to plan p"}));
  EXPECT_EQ(outcome.to_negotiate.size(), 1u);
  EXPECT_EQ(ReportOf("p").state, "negotiated");
  EXPECT_EQ(ReportOf("q").state, "negotiated");
  EXPECT_TRUE(HoldVote().rejections.empty()) << "said once";
}

TEST_F(PlanTableTest, AGraphThatIsGoneTakesItsKeysAlong) {
  Plan first = MakePlan("p", 1, {{0}}, 1), second = MakePlan("p", 1, {{0}}, 11);
  Activate(first);
  plans_.Add(second);
  plans_.Remove(first);
  HoldVote();
  EXPECT_EQ(Arrive(11), Route::kPlanned);
  plans_.MarkReduced(plans_.Take(0));
  plans_.Remove(second);
  HoldVote({ToRow({Says(PlanState::kActive, kWarmUpIterations + 1)})});
  EXPECT_EQ(plans_.Reports().size(), 1u) << "another rank has it still";
  HoldVote();
  EXPECT_TRUE(plans_.Reports().empty());
  plans_.Remove(second);
  Activate(MakePlan("p", 1, {{0}}, 21));
  EXPECT_EQ(ReportOf("p").state, "active");
}

TEST_F(PlanTableTest, AsksForTheVoteWhenManyGraphsAreGone) {
  for (int i = 0; i <= 64; ++i) {
    const Plan plan = MakePlan("p" + std::to_string(i), 1, {{0}}, 1 + i);
    plans_.Add(plan);
    EXPECT_FALSE(plans_.WantsVote());
    plans_.Remove(plan);
  }
  EXPECT_TRUE(plans_.WantsVote());
  HoldVote();
  EXPECT_TRUE(plans_.Reports().empty());
}

TEST_F(PlanTableTest, AGraphThatIsGoneMayRunOnceMore) {
  Activate(MakePlan("p", 1, {{0}}, 1));
  plans_.Add(MakePlan("p", 1, {{0}}, 11));
  plans_.Remove(MakePlan("p", 1, {{0}}, 1));
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  plans_.MarkReduced(plans_.Take(0));
  for (int i = 0; i < 64; ++i) {
    plans_.Add(MakePlan("p", 1, {{0}}, 100 + i));
    plans_.Remove(MakePlan("p", 1, {{0}}, 100 + i));
  }
  EXPECT_EQ(Arrive(1), Route::kNegotiated) << "but not long after";
}

// As with a model whose sequences have another length in each step: every plan becomes active, and
// what is kept does not grow.
TEST_F(PlanTableTest, AHundredThousandRetraces) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr std::int64_t kRetraces = 2000;
#else
  constexpr std::int64_t kRetraces = 100000;
#endif
  for (std::int64_t i = 0; i < kRetraces; ++i) {
    const Plan plan = MakePlan("p" + std::to_string(i), 2, {{0}, {1}}, 1 + 2 * i);
    Activate(plan);
    Planned(plan);
    plans_.Remove(plan);
    ASSERT_LE(plans_.Reports().size(), 2u);
  }
}

}  // namespace plan_table_graphs_test
}  // namespace horovod_opt
