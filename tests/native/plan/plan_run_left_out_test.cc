// Invariant 7 of plan_run.h.
#include <gtest/gtest.h>

#include "horovod_opt/csrc/core/plan/plan_run.h"
#include "tests/native/plan/plan_run_case.h"

namespace horovod_opt {
namespace plan_run_left_out_test {

// Slots a, b and c in buckets {a, b} and {c}; this rank leaves out b.
class LeftOutTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kLast = kWarmUpIterations;

  PlanRun::ArrivalResult Arrive(int slot, const std::string& difference = "") {
    ArrivalPtr arrival = std::make_unique<Numbered>(++sent_);
    return run_.Arrive(slot, difference, arrival, {});
  }

  void WarmUp() {
    for (std::uint64_t iteration = 1; iteration <= kLast; ++iteration) {
      for (int slot : {0, 2}) EXPECT_EQ(Arrive(slot).route, Route::kNegotiated);
    }
  }

  Vote CastVote() { return run_.CastVote(false, false, {}); }

  PlanRun::Effects Apply(Decision::Kind kind, const std::set<int>& left_out = {1}) {
    Decision decision;
    decision.kind = kind;
    decision.from_iteration = run_.last_iteration() + 1;
    decision.left_out = left_out;
    const Buckets buckets = Without(run_.plan().buckets, left_out);
    return run_.Apply(decision, {10, 11}, buckets);
  }

  void Commit() {
    EXPECT_EQ(CastVote().state, PlanState::kReady);
    Apply(Decision::kCommit);
    EXPECT_EQ(run_.state(), PlanState::kActive);
  }

  // Of slots 0 and 2.
  void Planned() {
    std::vector<int> bucket_ids;
    for (int slot : {0, 2}) {
      const int bucket_id = Arrive(slot).bucket_id;
      ASSERT_NE(bucket_id, kNoBucket);
      run_.MarkReduced(run_.Take(bucket_id, bucket_ids));
    }
  }

  PlanRun run_{MakePlan("p", 3, {{0, 1}, {2}})};
  int sent_ = 0;
};

TEST_F(LeftOutTest, TheOthersWarmUpWithoutIt) {
  EXPECT_FALSE(run_.LeaveOut(1, "sparse"));
  EXPECT_FALSE(run_.LeaveOut(1, "sparse"));
  WarmUp();
  const Vote vote = CastVote();
  EXPECT_EQ(vote.state, PlanState::kReady);
  EXPECT_EQ(vote.left_out, std::vector<int>{1});
}

TEST_F(LeftOutTest, ALastOneMakesItReady) {
  WarmUp();
  EXPECT_EQ(CastVote().state, PlanState::kCaptured);
  Apply(Decision::kWait);
  EXPECT_TRUE(run_.LeaveOut(1, "sparse"));
  EXPECT_EQ(CastVote().state, PlanState::kReady);
}

TEST_F(LeftOutTest, WhatItIsWhenItComesAllTheSameDoesNotMatter) {
  run_.LeaveOut(1, "sparse");
  EXPECT_FALSE(Arrive(1, "it is green").news);
  WarmUp();
  Commit();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Arrive(1, "it is green").route, Route::kNegotiated);
  Planned();
}

TEST_F(LeftOutTest, AnotherThatIsMissingStillFailsThePlan) {
  run_.LeaveOut(1, "sparse");
  for (std::uint64_t iteration = 0; iteration <= kLast; ++iteration) Arrive(2);
  EXPECT_EQ(CastVote().reason, "'a' is not executed in every iteration");
}

TEST_F(LeftOutTest, ItIsNegotiatedAndInNoBucket) {
  run_.LeaveOut(1, "sparse");
  WarmUp();
  Commit();
  EXPECT_EQ(run_.reason(), "without 'b' (sparse)");
  EXPECT_EQ(run_.buckets(), (Buckets{{0}, {2}}));
  for (int i = 0; i < 3; ++i) Planned();
  EXPECT_EQ(run_.iterations_done(), 3u);
  EXPECT_FALSE(run_.LeaveOut(1, "sparse")) << "known";
  EXPECT_TRUE(CastVote().whole);
  EXPECT_EQ(Arrive(1).route, Route::kDeferred);
  EXPECT_EQ(NumbersOf(Apply(Decision::kWait).to_negotiate), std::vector<int>{sent_});
}

// It may come on some ranks only, and then more often than the plan's own tensors.
TEST_F(LeftOutTest, ItBeginsNoIteration) {
  run_.LeaveOut(1, "sparse");
  WarmUp();
  Commit();
  for (int i = 0; i < 5; ++i) Arrive(1);
  EXPECT_EQ(CastVote().last_iteration, kLast);
  for (int i = 0; i < 5; ++i) Arrive(1);
  Apply(Decision::kWait);
  EXPECT_EQ(CastVote().last_iteration, kLast);
}

TEST_F(LeftOutTest, APlanOfNothingElseHasNoBuckets) {
  for (int slot : {0, 1}) EXPECT_FALSE(run_.LeaveOut(slot, "sparse"));
  EXPECT_TRUE(run_.LeaveOut(2, "sparse"));
  CastVote();
  Apply(Decision::kCommit, {0, 1, 2});
  EXPECT_EQ(run_.state(), PlanState::kActive);
  for (int slot : {0, 1, 2}) EXPECT_EQ(Arrive(slot).route, Route::kNegotiated);
}

TEST_F(LeftOutTest, LaterItEndsThePlan) {
  run_.LeaveOut(1, "sparse");
  WarmUp();
  Commit();
  EXPECT_TRUE(run_.LeaveOut(2, "sparse"));
  EXPECT_EQ(Arrive(0).route, Route::kDeferred);
  const Vote vote = CastVote();
  EXPECT_EQ(vote.state, PlanState::kEnding);
  EXPECT_EQ(vote.reason, "'c': sparse");
}

TEST_F(LeftOutTest, DuringTheVoteItEndsThePlan) {
  run_.LeaveOut(1, "sparse");
  WarmUp();
  CastVote();
  EXPECT_FALSE(run_.LeaveOut(2, "sparse"));
  EXPECT_EQ(Arrive(0).route, Route::kDeferred);
  const auto effects = Apply(Decision::kCommit);
  EXPECT_TRUE(effects.bucket_ids.empty() && effects.to_negotiate.empty());
  const Vote vote = CastVote();
  EXPECT_EQ(vote.state, PlanState::kEnding);
  EXPECT_EQ(vote.reason, "'c': sparse");
}

TEST_F(LeftOutTest, WhileThePlanRestsItFailsIt) {
  run_.LeaveOut(1, "sparse");
  WarmUp();
  Commit();
  Planned();
  CastVote();
  Apply(Decision::kRest);
  EXPECT_EQ(run_.buckets(), (Buckets{{0}, {2}}));
  EXPECT_TRUE(run_.LeaveOut(2, "sparse"));
  EXPECT_EQ(CastVote().state, PlanState::kFailed);
}

TEST_F(LeftOutTest, ARankThatHasJoinedHasNoZerosForIt) {
  run_.LeaveOut(1, "sparse");
  WarmUp();
  Commit();
  CastVote();
  Decision pause;
  pause.kind = Decision::kPause;
  pause.from_iteration = run_.last_iteration() + 2;
  run_.Apply(pause, {}, {});
  EXPECT_EQ(run_.SupplyZeros(), (std::vector<int>{10, 11}));
  EXPECT_EQ(Arrive(1).route, Route::kNegotiated);
}

TEST_F(LeftOutTest, AfterAllHaveJoinedItWarmsUpWithoutIt) {
  run_.LeaveOut(1, "sparse");
  WarmUp();
  Commit();
  Planned();
  run_.Restart();
  WarmUp();
  const Vote vote = CastVote();
  EXPECT_EQ(vote.state, PlanState::kReady);
  EXPECT_EQ(vote.left_out, std::vector<int>{1});
  Apply(Decision::kCommit);
  Planned();
}

// The ranks forget what they have decided.
TEST_F(LeftOutTest, AForgottenPlanWarmsUpWithAll) {
  run_.LeaveOut(1, "sparse");
  WarmUp();
  Commit();
  CastVote();
  Apply(Decision::kForget);
  WarmUp();
  EXPECT_EQ(CastVote().state, PlanState::kCaptured);
}

}  // namespace plan_run_left_out_test
}  // namespace horovod_opt
