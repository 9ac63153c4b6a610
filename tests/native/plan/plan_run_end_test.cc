// How a plan ends, rests and is forgotten, and what becomes of the tensors that it has.
#include <gtest/gtest.h>

#include "horovod_opt/csrc/core/plan/plan_run.h"
#include "tests/native/plan/plan_run_case.h"

namespace horovod_opt {
namespace plan_run_end_test {

using namespace std::chrono_literals;

TEST_F(PlanRunTest, AnEndDoesNotProlongWhatWasPaused) {
  Commit(kLast + 1);
  Decided(Decision::kPause, kLast + 1);
  Negotiated();
  EXPECT_TRUE(End().to_negotiate.empty());
  Negotiated();
}

TEST_F(PlanRunTest, ADifferentTensorEndsThePlanAndIsNegotiated) {
  Commit(kLast + 2);
  EXPECT_EQ(Arrive(2, "it is green").route, Route::kNegotiated);
  EXPECT_EQ(run_.state(), PlanState::kActive) << "not in a planned iteration";
  const auto arrived = Arrive(2, "it is green");
  EXPECT_EQ(arrived.route, Route::kDeferred);
  EXPECT_TRUE(arrived.news);
  EXPECT_EQ(Arrive(0).route, Route::kDeferred) << "all of it waits for the vote";
  const Vote vote = CastVote();
  EXPECT_EQ(vote.state, PlanState::kEnding);
  EXPECT_EQ(vote.reason, "'c': it is green");
  EXPECT_EQ(NumbersOf(End().to_negotiate), (std::vector<int>{2, 3}));
  Negotiated();
}

TEST_F(PlanRunTest, ADifferentTensorThatIsDeferredEndsThePlanIfItsIterationBecomesPlanned) {
  Arrive(0);
  CastVote();
  EXPECT_EQ(Arrive(1, "it is green").route, Route::kDeferred)
      << "its iteration has begun: never planned";
  EXPECT_EQ(Arrive(0, "it is blue").route, Route::kDeferred);
  const auto effects = Apply(Decision::kCommit, kLast + 2);
  EXPECT_TRUE(effects.news);
  EXPECT_TRUE(effects.to_negotiate.empty());
  EXPECT_EQ(CastVote().reason, "'a': it is blue");
  EXPECT_EQ(NumbersOf(End().to_negotiate), (std::vector<int>{2, 3}));
}

TEST_F(PlanRunTest, AnotherShapeIsADifference) {
  EXPECT_EQ(run_.See(0, false, {}), "");
  EXPECT_EQ(run_.See(0, false, {2, 3}),
            "it has the shape [2, 3], and had [] in its first iteration");
  PlanRun run(MakePlan("p", 1, {{0}}));
  EXPECT_EQ(run.See(0, false, {2, 3}), "");
  EXPECT_EQ(run.See(0, false, {2, 3}), "");
  EXPECT_EQ(run.See(0, false, {6}), "it has the shape [6], and had [2, 3] in its first iteration");
}

// Invariant 6.
TEST_F(PlanRunTest, AnEndTakesBackWhatIsNotCompleteEverywhere) {
  Commit(kLast + 1);
  Arrive(0);
  Arrive(2);  // complete here
  const auto effects = End({0, 0});
  EXPECT_EQ(NumbersOf(effects.to_negotiate), (std::vector<int>{1, 2}));
  EXPECT_TRUE(effects.debts.empty()) << "it was announced";
  EXPECT_TRUE(CastVote().under_way) << "and is still in nobody's queue";
  Apply(Decision::kWait);
  EXPECT_TRUE(Take(kBase + 1).IsEmpty());
  EXPECT_FALSE(CastVote().under_way);
  Apply(Decision::kWait);
  Negotiated();
}

TEST_F(PlanRunTest, AnEndLeavesWhatIsCompleteEverywhere) {
  Commit(kLast + 1);
  Arrive(2);
  EXPECT_TRUE(End({0, 1}).to_negotiate.empty());
  EXPECT_TRUE(CastVote().under_way);
  Apply(Decision::kWait);
  const Work work = Take(kBase + 1);
  EXPECT_EQ(NumbersOf(work.arrivals), std::vector<int>{1});
  EXPECT_TRUE(CastVote().under_way) << "not reduced";
  Apply(Decision::kWait);
  run_.MarkReduced(work);
  EXPECT_FALSE(CastVote().under_way);
}

TEST_F(PlanRunTest, AnEndOwesTheAnnouncementOfWhatOthersHaveAnnounced) {
  Commit(kLast + 1);
  Arrive(0);
  const auto effects = End({1, 1});
  EXPECT_EQ(NumbersOf(effects.to_negotiate), std::vector<int>{1});
  EXPECT_EQ(effects.debts, (std::vector<int>{kBase, kBase + 1}));
  EXPECT_TRUE(effects.news) << "in the next vote";
  EXPECT_TRUE(End().to_negotiate.empty()) << "once";
  EXPECT_TRUE(CastVote().under_way);
  Apply(Decision::kWait);
  EXPECT_TRUE(run_.Owe(kBase));
  EXPECT_TRUE(run_.Owe(kBase + 1));
  EXPECT_TRUE(Take(kBase).IsEmpty());
  EXPECT_TRUE(Take(kBase + 1).IsEmpty());
  EXPECT_FALSE(CastVote().under_way);
}

TEST_F(PlanRunTest, TakenBackInTheSecondIterationOfABucket) {
  Commit(kLast + 1);
  Planned();
  Arrive(2);
  Arrive(1);
  const auto effects = End({1, 1});
  EXPECT_EQ(effects.to_negotiate.size(), 2u);
  EXPECT_TRUE(Take(kBase + 1).IsEmpty());
}

TEST_F(PlanRunTest, RestsAndIsReadyAfterItsNextIteration) {
  Commit(kLast + 1);
  Planned();
  const auto freed = Decided(Decision::kRest, kLast + 2).free_ids;
  EXPECT_EQ(freed, (std::vector<int>{kBase, kBase + 1}));
  EXPECT_FALSE(run_.IsCommitted());
  EXPECT_EQ(CastVote().state, PlanState::kResting);
  Apply(Decision::kWait);
  EXPECT_EQ(run_.reason(), "they say");
  const auto arrived = Arrive(0);
  EXPECT_EQ(arrived.route, Route::kNegotiated);
  EXPECT_TRUE(arrived.news);
  EXPECT_EQ(CastVote().state, PlanState::kReady);
  Apply(Decision::kCommit, kLast + 3, {20, 21});
  EXPECT_EQ(Arrive(1).route, Route::kNegotiated);
  EXPECT_EQ(Arrive(2).route, Route::kNegotiated);
  EXPECT_EQ(Arrive(2).bucket_id, 21);
  EXPECT_EQ(Take(21).iteration, kLast + 3);
}

TEST_F(PlanRunTest, RestsWithTheBucketsThatItHad) {
  Commit(kLast + 1);
  CastVote();
  Apply(Decision::kRebuild, kLast + 1, {20, 21}, {{2, 0}, {1}});
  EXPECT_EQ(Decided(Decision::kRest, kLast + 1).free_ids,
            (std::vector<int>{kBase, kBase + 1, 20, 21}));
  EXPECT_EQ(run_.buckets(), (Buckets{{2, 0}, {1}}));
  Arrive(1);
  CastVote();
  Apply(Decision::kCommit, kLast + 2, {5, 6});
  EXPECT_EQ(run_.buckets(), (Buckets{{2, 0}, {1}}));
}

TEST_F(PlanRunTest, ForgottenItStartsAnewWithWhatHasArrivedSince) {
  Commit(kLast + 1);
  Planned();
  CastVote();
  Arrive(1);
  const auto effects = Apply(Decision::kForget);
  EXPECT_EQ(effects.free_ids, (std::vector<int>{kBase, kBase + 1}));
  EXPECT_EQ(effects.to_negotiate.size(), 1u);
  EXPECT_EQ(run_.state(), PlanState::kCaptured);
  EXPECT_EQ(run_.last_iteration(), 1u);
  Arrive(0);
  Arrive(2);
  Negotiated();
  EXPECT_EQ(run_.state(), PlanState::kReady);
}

TEST_F(PlanRunTest, SaysWhatTheVoteNeedsToGiveItsBucketIdsAway) {
  Commit(kLast + 1);
  now_ += 3s;
  Vote vote = CastVote();
  EXPECT_FALSE(vote.under_way);
  EXPECT_TRUE(vote.whole);
  Arrive(2);
  vote = CastVote();
  EXPECT_TRUE(vote.under_way) << "deferred";
  EXPECT_FALSE(vote.whole);
  EXPECT_EQ(vote.idle_ms, 0);
  EXPECT_EQ(vote.completions, (std::vector<std::uint64_t>{0, 0}));
  Apply(Decision::kWait);
  Arrive(0);
  now_ += 2s;
  vote = CastVote();
  EXPECT_EQ(vote.completions, (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(vote.idle_ms, 2000);
  Apply(Decision::kWait);
  Arrive(1);
  run_.MarkReduced(Take(kBase));
  run_.MarkReduced(Take(kBase + 1));
  vote = CastVote();
  EXPECT_FALSE(vote.under_way);
  EXPECT_TRUE(vote.whole);
}

// Invariant 6: the group has begun with it, unless Horovod's own operations are to reduce it.
TEST(BucketFilling, WhatItsGroupAloneHasStaysIfTheGroupReducesItFirst) {
  for (const int device : {kMainMemory, 0}) {
    Plan plan = MakePlan("p", 1, {{0}});
    plan.slots[0].reduction.device = device;
    BucketFilling filling(1);
    filling.Add(0, {std::make_shared<const PlannedBucket>(plan, 5, std::vector<int>{0}, 2)});
    ASSERT_EQ(filling.Put(0, 1, std::make_unique<Arrival>(), {}), 5);
    const auto withdrawal = filling.TakeBack({0}, {1}, {1});
    EXPECT_EQ(withdrawal.arrivals.size(), device == kMainMemory ? 0u : 1u);
    EXPECT_TRUE(withdrawal.debts.empty()) << "it has announced it";
    EXPECT_EQ(filling.Take(5).IsEmpty(), device != kMainMemory);
  }
}

// Invariant 6, between groups: another group may take back what this one has.
class GroupEndTest : public PlanRunTest {
 protected:
  void EndWhileTheGroupAloneHasC() {
    Commit(kLast + 1);
    Arrive(2);
    CastVote();
    Decision end = Decided(Decision::kEnd, kLast + 2, "they say");
    end.everywhere = {0, 0};
    end.anywhere = end.in_group = {0, 1};
    EXPECT_TRUE(run_.Apply(end, {}, {}).to_negotiate.empty());
  }
};

TEST_F(GroupEndTest, WhatIsSentAgainWaitsUntilWhatMayComeBackIsHandedBack) {
  EndWhileTheGroupAloneHasC();
  EXPECT_EQ(Arrive(0).route, Route::kNegotiated) << "nothing of it is under way";
  const auto again = Arrive(2);
  EXPECT_EQ(again.route, Route::kDeferred);
  EXPECT_TRUE(again.news);
  EXPECT_EQ(Arrive(1).route, Route::kDeferred);
  const auto wait = [&] {
    CastVote();
    return Apply(Decision::kWait);
  };
  EXPECT_TRUE(wait().news) << "until it has come back, or is reduced";
  EXPECT_EQ(NumbersOf(run_.GiveBack(kBase + 1)), std::vector<int>{1});
  EXPECT_TRUE(wait().to_negotiate.empty()) << "it is not in the queue yet";
  run_.HandedBack(kBase + 1);
  const auto effects = wait();
  EXPECT_EQ(NumbersOf(effects.to_negotiate), (std::vector<int>{3, 4}));
  EXPECT_FALSE(effects.news);
  EXPECT_FALSE(CastVote().under_way);
}

TEST_F(GroupEndTest, OrUntilItIsReducedAfterAll) {
  EndWhileTheGroupAloneHasC();
  EXPECT_EQ(Arrive(2).route, Route::kDeferred);
  Take(kBase + 1);
  CastVote();
  EXPECT_EQ(NumbersOf(Apply(Decision::kWait).to_negotiate), std::vector<int>{2});
}

// Invariant 8. The others' votes are in simulation/abandoned_steps_test.cc.
class StepTest : public PlanRunTest {
 protected:
  PlanRun::ArrivalResult Send(int slot, std::int64_t step) {
    ArrivalPtr arrival = std::make_unique<Numbered>(++sent_);
    arrival->step = step;
    arrival->in_turn = in_turn_;
    return run_.Arrive(slot, "", arrival, now_);
  }

  bool in_turn_ = true;

  PlanRun::Effects Abandon() {
    const Vote vote = CastVote();
    Decision decision = Decided(Decision::kAbandon, 0, "");
    decision.everywhere = decision.anywhere = decision.in_group = vote.completions;
    decision.missing[1] = {0, 1, 2, 0, 1};
    return run_.Apply(decision, {}, {});
  }
};

TEST_F(StepTest, TheNextStepIsHeldUntilTheOneBeforeIsReduced) {
  Commit(kLast + 1);
  for (int slot : {0, 1, 2}) EXPECT_EQ(Send(slot, 7).route, Route::kPlanned);
  const auto arrived = Send(2, 8);
  EXPECT_EQ(arrived.route, Route::kDeferred);
  EXPECT_FALSE(arrived.news) << "nothing is missing";
  Take(kBase + 1);
  EXPECT_FALSE(run_.HeldStepMayBegin());
  Take(kBase);
  EXPECT_TRUE(run_.HeldStepMayBegin());
  CastVote();
  EXPECT_EQ(Apply(Decision::kWait).bucket_ids, std::vector<int>{kBase + 1});
}

TEST_F(StepTest, WhatIsHeldGoesOnAfterAStepThatAllHaveLeft) {
  Commit(kLast + 1);
  Send(0, 7);
  EXPECT_TRUE(Send(1, 8).news);
  EXPECT_EQ(CastVote().missing, (std::vector<int>{1, 2}));
  Apply(Decision::kWait);
  const auto effects = Abandon();
  ASSERT_EQ(NumbersOf(effects.to_negotiate), (std::vector<int>{1, 2}));
  EXPECT_NE(effects.to_negotiate[0]->failure, "");
  EXPECT_EQ(effects.to_negotiate[1]->failure, "") << "negotiated, as the plan warms up again";
  EXPECT_EQ(Send(2, 7).route, Route::kAbandoned) << "late";
}

TEST_F(StepTest, AStepThatIsAbandonedFailsWithAllThatComesOfIt) {
  Commit(kLast + 1);
  Send(0, 7);
  const auto effects = Abandon();
  ASSERT_EQ(NumbersOf(effects.to_negotiate), std::vector<int>{1});
  EXPECT_EQ(effects.to_negotiate[0]->failure, run_.abandoned());
  EXPECT_NE(run_.abandoned().find("a step of p was abandoned: rank 1 has left it without 'a', 'b', "
                                  "'c' and 2 more tensors."),
            std::string::npos)
      << run_.abandoned();
  EXPECT_EQ(Send(2, 7).route, Route::kAbandoned);
  EXPECT_EQ(Send(2, 8).route, Route::kNegotiated);
}

TEST_F(StepTest, AStepThatTheFrameworkSaysIsOverIsLeftUnlessItIsWhole) {
  in_turn_ = false;
  Commit(kLast + 1);
  Send(0, 7);
  EXPECT_TRUE(run_.StepOver(7));
  EXPECT_EQ(CastVote().missing, (std::vector<int>{1, 2}));
  Apply(Decision::kWait);
  EXPECT_EQ(Send(1, 7).route, Route::kPlanned) << "late";
  Send(2, 7);
  EXPECT_FALSE(CastVote().left);
  Apply(Decision::kWait);
  EXPECT_FALSE(run_.StepOver(7));
}

TEST_F(StepTest, AStepMayBeOverBeforeItsFirstTensorArrives) {
  in_turn_ = false;
  Commit(kLast + 1);
  EXPECT_FALSE(run_.StepOver(7));
  EXPECT_TRUE(Send(0, 7).news);
  EXPECT_TRUE(CastVote().left);
}

TEST_F(StepTest, StepsThatDoNotComeInTurnAreHeldOnlyAfterOneThatWasLeft) {
  in_turn_ = false;
  Commit(kLast + 1);
  Send(2, 7);
  Take(kBase + 1);
  EXPECT_EQ(Send(2, 8).route, Route::kPlanned) << "of another thread";
  Take(kBase + 1);
  run_.StepOver(8);
  EXPECT_EQ(Send(2, 9).route, Route::kDeferred);
  CastVote();
  EXPECT_EQ(Send(0, 9).route, Route::kDeferred);
  Apply(Decision::kWait);
  EXPECT_EQ(NumbersOf(Abandon().to_negotiate), (std::vector<int>{3, 4}));
}

TEST_F(StepTest, AStepOfWhichNothingComesIsLeftAfterTheStallChecksTime) {
  Commit(kLast + 1);
  const auto left = [&](Clock::duration patience) {
    const bool is_left = run_.CastVote(false, false, now_, patience).left;
    Apply(Decision::kWait);
    return is_left;
  };
  EXPECT_FALSE(left(1s)) << "none has begun";
  Send(0, 7);
  now_ += 5s;
  EXPECT_FALSE(left(Clock::duration::zero())) << "nobody waits";
  EXPECT_FALSE(left(6s));
  EXPECT_TRUE(left(5s));
  Send(1, 7);
  EXPECT_FALSE(left(5s)) << "it goes on";
  Send(2, 7);
  now_ += 5s;
  EXPECT_FALSE(left(5s)) << "it is whole";
}

// Another rank has begun the next step as well, and sends that negotiated.
TEST_F(StepTest, AStepThatWasLeftBeforeThePlanIsActiveDoesNotHoldTheNextOne) {
  EXPECT_EQ(Send(0, 7).route, Route::kNegotiated);
  EXPECT_EQ(CastVote().last_iteration, kLast + 1);
  for (int slot : {0, 1, 2}) EXPECT_EQ(Send(slot, 8).route, Route::kDeferred);
  Decision commit = Decided(Decision::kCommit, kLast + 3, "");
  EXPECT_EQ(NumbersOf(run_.Apply(commit, {kBase, kBase + 1}, run_.plan().buckets).to_negotiate),
            (std::vector<int>{2, 3, 4}));
  const Vote vote = CastVote();
  EXPECT_FALSE(vote.left || vote.goes_on);
  EXPECT_EQ(vote.last_iteration, kLast + 2);
  Apply(Decision::kWait);
  for (int slot : {0, 1, 2}) EXPECT_EQ(Send(slot, 9).route, Route::kPlanned);
}

TEST_F(StepTest, NorOneThatTheFrameworkSaysIsOver) {
  in_turn_ = false;
  Send(0, 7);
  CastVote();
  run_.Apply(Decided(Decision::kCommit, kLast + 2, ""), {kBase, kBase + 1}, run_.plan().buckets);
  EXPECT_FALSE(run_.StepOver(7));
  EXPECT_FALSE(CastVote().left);
  Apply(Decision::kWait);
  for (int slot : {0, 1, 2}) EXPECT_EQ(Send(slot, 8).route, Route::kPlanned);
}

TEST_F(StepTest, AStepOfTheWarmUpThatWasLeftBeginsTheWarmUpAnew) {
  PlanRun run(MakePlan("p", 2, {{0, 1}}));
  const auto send = [&](int slot, std::int64_t step) {
    ArrivalPtr arrival = std::make_unique<Numbered>(0);
    arrival->step = step;
    arrival->in_turn = true;
    EXPECT_EQ(run.Arrive(slot, "", arrival, now_).route, Route::kNegotiated);
  };
  send(0, 1);
  for (std::int64_t step : {2, 3}) {
    EXPECT_EQ(run.state(), PlanState::kCaptured);
    send(0, step);
    send(1, step);
  }
  EXPECT_EQ(run.state(), PlanState::kReady);
  EXPECT_EQ(run.last_iteration(), 3u) << "as on ranks that have sent more of the first step";
}

}  // namespace plan_run_end_test
}  // namespace horovod_opt
