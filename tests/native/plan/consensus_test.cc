#include "horovod_opt/csrc/core/plan/consensus.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace consensus_test {

Vote Says(PlanState state, std::uint64_t begun = 0, const std::string& reason = "",
          std::vector<std::int64_t> times = {}) {
  Vote vote;
  vote.hash = "p";
  vote.state = state;
  vote.last_iteration = begun;
  vote.reason = reason;
  vote.times = std::move(times);
  return vote;
}

// Of one plan, from what each rank says; the ranks' rows are as they travel.
Decision Decided(const std::vector<Vote>& by_rank) {
  std::vector<std::string> rows;
  for (const Vote& vote : by_rank) rows.push_back(ToRow({vote}));
  const auto decisions = Decide(ByRank(rows));
  EXPECT_EQ(decisions.size(), 1u);
  EXPECT_EQ(decisions.at(0).hash, "p");
  return decisions.at(0);
}

TEST(Vote, RowsKeepEveryField) {
  const std::vector<Vote> votes{
      {"p",
       PlanState::kActive,
       12345678901234,
       "",
       {7, 0, -3},
       {0, kMainMemory, 15},
       {9, 8},
       {2, 4},
       true,
       true,
       false,
       77,
       true,
       true,
       true,
       {1, 3},
       {1, 2, 3}},
      {"q", PlanState::kFailed, 0, "'a b': two\nlines ", {}, {}, {}, {}, false, false, true, 0},
      {"r", PlanState::kCaptured, 1, " ", {1}, {0}, {5}, {0}, true, false, true, 1},
  };
  const auto read = FromRow(ToRow(votes));
  ASSERT_EQ(read.size(), votes.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].hash, votes[i].hash);
    EXPECT_EQ(read[i].state, votes[i].state);
    EXPECT_EQ(read[i].last_iteration, votes[i].last_iteration);
    EXPECT_EQ(read[i].times, votes[i].times);
    EXPECT_EQ(read[i].devices, votes[i].devices);
    EXPECT_EQ(read[i].completions, votes[i].completions);
    EXPECT_EQ(read[i].left_out, votes[i].left_out);
    EXPECT_EQ(read[i].bound, votes[i].bound);
    EXPECT_EQ(read[i].under_way, votes[i].under_way);
    EXPECT_EQ(read[i].whole, votes[i].whole);
    EXPECT_EQ(read[i].idle_ms, votes[i].idle_ms);
    EXPECT_EQ(read[i].goes_on, votes[i].goes_on);
    EXPECT_EQ(read[i].left, votes[i].left);
    EXPECT_EQ(read[i].step_over, votes[i].step_over);
    EXPECT_EQ(read[i].missing, votes[i].missing);
    EXPECT_TRUE(read[i].limits == votes[i].limits);
  }
  EXPECT_EQ(read[0].reason, "");
  EXPECT_EQ(read[1].reason, "'a b': two lines ");
  EXPECT_EQ(read[2].reason, " ");
  EXPECT_TRUE(FromRow(ToRow({})).empty());
}

TEST(Vote, CommitsOnceAllAreReadyFromTheIterationAfterTheLastBegun) {
  const Decision decision =
      Decided({Says(PlanState::kReady, 3), Says(PlanState::kReady, 7), Says(PlanState::kReady, 5)});
  EXPECT_EQ(decision.kind, Decision::kCommit);
  EXPECT_EQ(decision.from_iteration, 8u);
}

// Invariant 6: of iteration 9.
Vote HasAll() { return Says(PlanState::kActive, 9); }
Vote IsBefore() { return Says(PlanState::kActive, 8); }
Vote IsWithin() {
  Vote vote = HasAll();
  vote.whole = false;
  return vote;
}
Vote HasLeft(bool goes_on) {
  Vote vote = IsWithin();
  vote.left = true;
  vote.goes_on = goes_on;
  vote.missing = {2, 5};
  return vote;
}
Vote HasAllAndGoesOn() {
  Vote vote = HasAll();
  vote.goes_on = true;
  return vote;
}

TEST(Vote, AbandonsAStepOnceItIsKnownOfEveryRankWhetherItHasLeft) {
  for (const Vote& open : {IsBefore(), IsWithin()}) {
    const Decision decision = Decided({HasLeft(true), open, HasAll()});
    EXPECT_EQ(decision.kind, Decision::kWait);
    EXPECT_TRUE(decision.any_has_left) << "to vote again when that rank knows";
  }
  const Decision known = Decided({HasLeft(true), HasLeft(true), HasAll()});
  EXPECT_EQ(known.kind, Decision::kAbandon);
  EXPECT_EQ(known.missing, (std::map<int, std::vector<int>>{{0, {2, 5}}, {1, {2, 5}}}));
  EXPECT_FALSE(Decided({HasAll(), HasAllAndGoesOn()}).any_has_left) << "it will be reduced";
}

TEST(Vote, AStepFailsIfAnyRankHasNotLeftIt) {
  EXPECT_FALSE(Decided({HasLeft(true), HasLeft(true)}).fails_step);
  EXPECT_FALSE(Decided({HasLeft(true), HasAllAndGoesOn()}).fails_step);
  EXPECT_TRUE(Decided({HasLeft(true), HasAll()}).fails_step);
  EXPECT_TRUE(Decided({HasLeft(true), HasLeft(false)}).fails_step);
}

TEST(Vote, AStepThatAllHaveLeftIsAbandonedOnceSomebodyGoesOn) {
  EXPECT_EQ(Decided({HasLeft(false), HasLeft(false)}).kind, Decision::kWait);
  EXPECT_EQ(Decided({HasLeft(false), HasAll()}).kind, Decision::kAbandon);
}

TEST(Vote, AStepThatIsOverIsAbandonedOnceAllHaveBegunIt) {
  Vote over = HasLeft(false);
  over.step_over = true;
  EXPECT_EQ(Decided({over, IsWithin(), IsBefore()}).kind, Decision::kWait);
  const Decision begun = Decided({over, IsWithin(), HasAll()});
  EXPECT_EQ(begun.kind, Decision::kAbandon);
  EXPECT_EQ(begun.missing.size(), 1u);
  EXPECT_EQ(Decided({over, over}).kind, Decision::kAbandon);
}

TEST(Vote, APlanThatEndsAbandonsNoStep) {
  EXPECT_EQ(Decided({HasLeft(true), Says(PlanState::kEnding, 9)}).kind, Decision::kEnd);
}

TEST(Vote, WaitsForFirstIterations) {
  const Decision decision = Decided({Says(PlanState::kCaptured), Says(PlanState::kReady, 2),
                                     Says(PlanState::kCaptured), Says(PlanState::kCaptured)});
  EXPECT_EQ(decision.kind, Decision::kWait);
  EXPECT_EQ(decision.reason, "its warm-up is not over on ranks 0, 2-3");
}

TEST(Vote, WaitsForRanksThatDoNotKnowThePlan) {
  for (const int without : {0, 1, 2}) {
    std::vector<std::string> rows(3, ToRow({Says(PlanState::kReady, 2)}));
    rows[without] = "";
    const auto decisions = Decide(ByRank(rows));
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_EQ(decisions[0].kind, Decision::kWait);
    EXPECT_EQ(decisions[0].reason, "its warm-up is not over on rank " + std::to_string(without));
  }
}

// A process set that not all ranks are in.
TEST(Vote, RanksHaveTheNumbersThatTheyHaveInTheJob) {
  const std::string ready = ToRow({Says(PlanState::kReady, 2)});
  const auto waits = Decide({{1, ready}, {4, SharedText()}, {5, SharedText()}});
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].reason, "its warm-up is not over on ranks 4-5");
  const auto ends = Decide({{1, ready}, {4, ToRow({Says(PlanState::kFailed, 2, "odd")})}});
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].reason, "rank 4: odd");
}

TEST(Vote, NothingToDecide) {
  EXPECT_TRUE(Decide(ByRank({"", ""})).empty());
  EXPECT_EQ(Decided({Says(PlanState::kActive, 4), Says(PlanState::kActive, 5)}).kind,
            Decision::kWait);
}

TEST(Vote, OneRankIsEnough) {
  struct {
    PlanState state;
    Decision::Kind kind;
  } const cases[] = {{PlanState::kFailed, Decision::kEnd},
                     {PlanState::kEnding, Decision::kEnd},
                     {PlanState::kPausing, Decision::kPause}};
  for (const auto& test_case : cases) {
    const Decision decision =
        Decided({Says(PlanState::kActive, 9), Says(test_case.state, 4, "because"),
                 Says(PlanState::kActive, 6)});
    EXPECT_EQ(decision.kind, test_case.kind);
    EXPECT_EQ(decision.reason, "rank 1: because");
    EXPECT_EQ(decision.from_iteration, 10u) << "no iteration that any rank has begun is split";
  }
  EXPECT_EQ(Decided({Says(PlanState::kReady), Says(PlanState::kFailed)}).kind, Decision::kEnd);
}

TEST(Vote, WhatEndsForGoodGoesFirst) {
  EXPECT_EQ(Decided({Says(PlanState::kPausing, 1, "a"), Says(PlanState::kEnding, 1, "b")}).kind,
            Decision::kEnd);
  const Decision decision =
      Decided({Says(PlanState::kPausing, 1, "a"), Says(PlanState::kEnding, 1, "b"),
               Says(PlanState::kFailed, 1, "c"), Says(PlanState::kFailed, 1, "d")});
  EXPECT_EQ(decision.kind, Decision::kEnd);
  EXPECT_EQ(decision.reason, "rank 2: c");
}

TEST(Vote, RebuildsByTheTimesOfRank0) {
  const Decision decision = Decided(
      {Says(PlanState::kActive, 6, "", {300, 100}), Says(PlanState::kActive, 8, "", {1, 2})});
  EXPECT_EQ(decision.kind, Decision::kRebuild);
  EXPECT_EQ(decision.from_iteration, 9u);
  EXPECT_EQ(decision.times, (std::vector<std::int64_t>{300, 100}));
}

Vote IsReadyOn(Devices devices) {
  Vote vote = Says(PlanState::kReady, 2);
  vote.devices = std::move(devices);
  return vote;
}

TEST(Vote, EveryRankLearnsTheDevicesOfAll) {
  const Decision decision =
      Decided({IsReadyOn({0, kMainMemory, 0, 0}), IsReadyOn({1, kMainMemory, 1, 2}),
               IsReadyOn({0, kMainMemory, 0, 0})});
  EXPECT_EQ(decision.kind, Decision::kCommit);
  ASSERT_EQ(decision.devices.size(), 4u);
  EXPECT_EQ(*decision.devices[0], (Devices{0, 1, 0}));
  EXPECT_EQ(*decision.devices[1], (Devices{kMainMemory, kMainMemory, kMainMemory}));
  EXPECT_EQ(decision.devices[2], decision.devices[0]) << "the same object";
  EXPECT_EQ(*decision.devices[3], (Devices{0, 2, 0}));
}

TEST(Vote, NothingIsSaidOfDevicesWhereAllIsInMainMemory) {
  const Decision decision = Decided({IsReadyOn({}), IsReadyOn({})});
  EXPECT_EQ(decision.kind, Decision::kCommit);
  EXPECT_TRUE(decision.devices.empty());
}

TEST(Vote, RejectsATensorThatIsOnAGpuOnSomeRanksOnly) {
  for (const Devices& devices : {Devices{}, Devices{0, 0}, Devices{kMainMemory, 0}}) {
    const Decision decision =
        Decided({IsReadyOn({0, kMainMemory}), IsReadyOn({1, kMainMemory}), IsReadyOn(devices)});
    EXPECT_EQ(decision.kind, Decision::kEnd);
    EXPECT_EQ(decision.reason, "rank 2: it has other tensors on GPUs than rank 0");
  }
}

// Invariant 7 of plan_run.h.
TEST(Vote, WhatAnyRankLeavesOutIsLeftOut) {
  Vote first = IsReadyOn({0, 0, kMainMemory}), second = IsReadyOn({1, kMainMemory, kMainMemory});
  first.left_out = {2};
  second.left_out = {1};
  const Decision decision = Decided({first, second});
  EXPECT_EQ(decision.kind, Decision::kCommit) << "where it would be does not matter";
  EXPECT_EQ(decision.left_out, (std::set<int>{1, 2}));
  second.left_out.clear();
  EXPECT_EQ(Decided({first, second}).kind, Decision::kEnd);
  EXPECT_TRUE(Decided({IsReadyOn({}), IsReadyOn({})}).left_out.empty());
}

TEST(Vote, NoNewBucketsForAPlanThatIsNotActiveOrAboutToEnd) {
  EXPECT_EQ(Decided({Says(PlanState::kReady, 6, "", {1, 2}), Says(PlanState::kReady, 6)}).kind,
            Decision::kCommit);
  EXPECT_EQ(Decided({Says(PlanState::kActive, 6, "", {1, 2}), Says(PlanState::kPausing, 6)}).kind,
            Decision::kPause);
}

// Invariant 4.
TEST(Vote, AnEndTellsWhichBucketsAreCompleteEverywhere) {
  Vote first = Says(PlanState::kActive, 9), second = Says(PlanState::kEnding, 9, "no");
  first.completions = {4, 5, 6};
  second.completions = {5, 5, 5};
  const Decision decision = Decided({first, Says(PlanState::kCaptured), second});
  EXPECT_EQ(decision.kind, Decision::kEnd);
  EXPECT_EQ(decision.everywhere, (std::vector<std::uint64_t>{4, 5, 5}));
  EXPECT_EQ(decision.anywhere, (std::vector<std::uint64_t>{5, 5, 6}));
}

TEST(Vote, ARankThatLacksThePlanHasCompletedNothingOfIt) {
  Vote ending = Says(PlanState::kEnding, 9, "no"), active = Says(PlanState::kActive, 9);
  ending.completions = {5, 4};
  active.completions = {5, 5};
  for (const auto& [row, in_group] :
       {std::pair{std::string(), std::vector<std::uint64_t>{0, 0}},
        std::pair{ToRow({active}), std::vector<std::uint64_t>{5, 4}}}) {
    const auto rows = ByRank({ToRow({ending}), row, ToRow({})});
    const Decision decision = Decide(rows, {0, 1}).at(0);
    EXPECT_EQ(decision.kind, Decision::kEnd);
    EXPECT_EQ(decision.everywhere, (std::vector<std::uint64_t>{0, 0}));
    EXPECT_EQ(decision.in_group, in_group) << "of ranks 0 and 1";
    EXPECT_TRUE(CompletionsEverywhere(rows).empty());
  }
}

// However many ranks there are, what many say alike is looked at once.
TEST(Vote, RanksThatSayTheSameAreCountedAndNotRepeated) {
  constexpr int kRanks = 5000;
  Vote early = Says(PlanState::kReady, 3), late = Says(PlanState::kReady, 7);
  TextByRank rows;
  for (int rank = 0; rank < kRanks; ++rank) rows[rank] = ToRow({rank % 2 == 0 ? early : late});
  EXPECT_EQ(Decide(rows).at(0).kind, Decision::kCommit);
  EXPECT_EQ(Decide(rows).at(0).from_iteration, 8u);
  rows[4321] = ToRow({Says(PlanState::kFailed, 1, "it is another tensor")});
  EXPECT_EQ(Decide(rows).at(0).reason, "rank 4321: it is another tensor");
  rows[4321] = ToRow({Says(PlanState::kCaptured)});
  rows[4999] = std::string();
  EXPECT_EQ(Decide(rows).at(0).reason, "its warm-up is not over on ranks 4321, 4999");
}

TEST(Vote, NewBucketsAreOfTheSizeThatTheFirstRankHas) {
  Vote first = Says(PlanState::kActive, 6, "", {1, 2}), second = Says(PlanState::kActive, 6);
  first.limits = 100;
  second.limits = 7;
  EXPECT_EQ(Decided({first, second}).kind, Decision::kRebuild);
  EXPECT_TRUE(Decided({first, second}).limits == BucketLimits(100));
}

// Invariant 5.
TEST(Vote, BucketIdsAreFreeWhenNothingIsUnderWayAnywhere) {
  Vote quiet = Says(PlanState::kEnded), busy = quiet;
  busy.under_way = true;
  EXPECT_EQ(Decided({quiet, quiet}).kind, Decision::kFree);
  EXPECT_EQ(Decided({quiet, busy}).kind, Decision::kWait);
  EXPECT_EQ(Decided({Says(PlanState::kCaptured), quiet}).kind, Decision::kFree)
      << "heard of it later";
}

TEST(Vote, APlanMayRestIfItsLastIterationIsOverEverywhere) {
  Vote quiet = Says(PlanState::kActive, 7);
  quiet.idle_ms = 30;
  Vote peer = quiet;
  peer.idle_ms = 4;
  const Decision decision = Decided({quiet, peer});
  EXPECT_EQ(decision.kind, Decision::kWait);
  EXPECT_TRUE(decision.may_rest);
  EXPECT_EQ(decision.idle_ms, 30) << "on rank 0";
  EXPECT_EQ(decision.from_iteration, 8u);
  for (int why = 0; why < 4; ++why) {
    Vote not_quiet = peer;
    if (why == 0) not_quiet.under_way = true;
    if (why == 1) not_quiet.whole = false;
    if (why == 2) not_quiet.last_iteration = 8;
    if (why == 3) not_quiet.state = PlanState::kPausing;
    EXPECT_FALSE(Decided({quiet, not_quiet}).may_rest) << why;
  }
}

TEST(Vote, APlanThatRestsIsNotAboutToBeReady) {
  const Decision decision = Decided({Says(PlanState::kResting, 7), Says(PlanState::kReady, 8)});
  EXPECT_EQ(decision.kind, Decision::kWait);
  EXPECT_EQ(decision.reason, "");
}

TEST(Vote, ForgetsWhatNoRankHasAGraphOf) {
  Vote gone = Says(PlanState::kActive, 7);
  gone.bound = false;
  EXPECT_EQ(Decided({gone, gone}).kind, Decision::kForget);
  EXPECT_EQ(Decided({gone, Says(PlanState::kActive, 7)}).kind, Decision::kWait);
  Vote busy = gone;
  busy.under_way = true;
  EXPECT_EQ(Decided({gone, busy}).kind, Decision::kWait);
}

TEST(Vote, OneDecisionAPlanInTheOrderOfHashes) {
  Vote ready = Says(PlanState::kReady, 1);
  Vote failed = Says(PlanState::kFailed, 0, "no");
  ready.hash = "q";
  failed.hash = "a";
  const auto decisions = Decide(ByRank({ToRow({ready, failed}), ToRow({ready})}));
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_EQ(decisions[0].hash, "a");
  EXPECT_EQ(decisions[0].kind, Decision::kEnd);
  EXPECT_EQ(decisions[1].hash, "q");
  EXPECT_EQ(decisions[1].kind, Decision::kCommit);
  EXPECT_EQ(decisions[1].from_iteration, 2u);
}

}  // namespace consensus_test
}  // namespace horovod_opt
