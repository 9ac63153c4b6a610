#include "horovod_opt/csrc/core/plan/consensus.h"

#include <gtest/gtest.h>

#include <utility>

namespace horovod_opt {
namespace {

Statement Says(Stand stand, std::uint64_t begun = 0, const std::string& reason = "",
               std::vector<std::int64_t> times = {}) {
  Statement statement;
  statement.hash = "p";
  statement.stand = stand;
  statement.begun = begun;
  statement.reason = reason;
  statement.times = std::move(times);
  return statement;
}

// Of one plan, from what each rank says; the ranks' rows are as they travel.
Decision Decided(const std::vector<Statement>& by_rank) {
  std::vector<std::string> rows;
  for (const Statement& one : by_rank) rows.push_back(ToRow({one}));
  const auto decisions = Decide(rows);
  EXPECT_EQ(decisions.size(), 1u);
  EXPECT_EQ(decisions.at(0).hash, "p");
  return decisions.at(0);
}

TEST(Council, RowsKeepEveryField) {
  const std::vector<Statement> statements{
      {"p", Stand::kActive, 12345678901234, "", {7, 0, -3}, {0, kMainMemory, 15}, {9, 8}, true, true, false, 77},
      {"q", Stand::kFailed, 0, "'a b': two\nlines ", {}, {}, {}, false, false, true, 0},
      {"r", Stand::kCaptured, 1, " ", {1}, {0}, {5}, true, false, true, 1},
  };
  const auto read = FromRow(ToRow(statements));
  ASSERT_EQ(read.size(), statements.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].hash, statements[i].hash);
    EXPECT_EQ(read[i].stand, statements[i].stand);
    EXPECT_EQ(read[i].begun, statements[i].begun);
    EXPECT_EQ(read[i].times, statements[i].times);
    EXPECT_EQ(read[i].devices, statements[i].devices);
    EXPECT_EQ(read[i].completed, statements[i].completed);
    EXPECT_EQ(read[i].bound, statements[i].bound);
    EXPECT_EQ(read[i].under_way, statements[i].under_way);
    EXPECT_EQ(read[i].whole, statements[i].whole);
    EXPECT_EQ(read[i].idle_ms, statements[i].idle_ms);
  }
  EXPECT_EQ(read[0].reason, "");
  EXPECT_EQ(read[1].reason, "'a b': two lines ");
  EXPECT_EQ(read[2].reason, " ");
  EXPECT_TRUE(FromRow(ToRow({})).empty());
}

TEST(Council, CommitsOnceAllAreReadyFromThePassAfterTheLastBegun) {
  const Decision decision =
      Decided({Says(Stand::kReady, 3), Says(Stand::kReady, 7), Says(Stand::kReady, 5)});
  EXPECT_EQ(decision.kind, Decision::kCommit);
  EXPECT_EQ(decision.from_pass, 8u);
}

TEST(Council, WaitsForFirstPasses) {
  const Decision decision = Decided({Says(Stand::kCaptured), Says(Stand::kReady, 2),
                                     Says(Stand::kCaptured), Says(Stand::kCaptured)});
  EXPECT_EQ(decision.kind, Decision::kWait);
  EXPECT_EQ(decision.reason, "waits for its first passes on ranks 0, 2-3");
}

TEST(Council, WaitsForRanksThatDoNotKnowThePlan) {
  for (const int without : {0, 1, 2}) {
    std::vector<std::string> rows(3, ToRow({Says(Stand::kReady, 2)}));
    rows[without] = "";
    const auto decisions = Decide(rows);
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_EQ(decisions[0].kind, Decision::kWait);
    EXPECT_EQ(decisions[0].reason,
              "waits for its first passes on rank " + std::to_string(without));
  }
}

TEST(Council, NothingToDecide) {
  EXPECT_TRUE(Decide({"", ""}).empty());
  EXPECT_EQ(Decided({Says(Stand::kActive, 4), Says(Stand::kActive, 5)}).kind, Decision::kWait);
}

TEST(Council, OneRankIsEnough) {
  struct {
    Stand stand;
    Decision::Kind kind;
  } const cases[] = {{Stand::kFailed, Decision::kEnd},
                     {Stand::kEnding, Decision::kEnd},
                     {Stand::kPausing, Decision::kPause}};
  for (const auto& one : cases) {
    const Decision decision =
        Decided({Says(Stand::kActive, 9), Says(one.stand, 4, "because"), Says(Stand::kActive, 6)});
    EXPECT_EQ(decision.kind, one.kind);
    EXPECT_EQ(decision.reason, "rank 1: because");
    EXPECT_EQ(decision.from_pass, 10u) << "no pass that any rank has begun is split";
  }
  EXPECT_EQ(Decided({Says(Stand::kReady), Says(Stand::kFailed)}).kind, Decision::kEnd);
}

TEST(Council, WhatEndsForGoodGoesFirst) {
  EXPECT_EQ(Decided({Says(Stand::kPausing, 1, "a"), Says(Stand::kEnding, 1, "b")}).kind,
            Decision::kEnd);
  const Decision decision = Decided({Says(Stand::kPausing, 1, "a"), Says(Stand::kEnding, 1, "b"),
                                     Says(Stand::kFailed, 1, "c"), Says(Stand::kFailed, 1, "d")});
  EXPECT_EQ(decision.kind, Decision::kEnd);
  EXPECT_EQ(decision.reason, "rank 2: c");
}

TEST(Council, RecutsByTheTimesOfRank0) {
  const Decision decision =
      Decided({Says(Stand::kActive, 6, "", {300, 100}), Says(Stand::kActive, 8, "", {1, 2})});
  EXPECT_EQ(decision.kind, Decision::kRecut);
  EXPECT_EQ(decision.from_pass, 9u);
  EXPECT_EQ(decision.times, (std::vector<std::int64_t>{300, 100}));
}

Statement IsReadyOn(Devices devices) {
  Statement statement = Says(Stand::kReady, 2);
  statement.devices = std::move(devices);
  return statement;
}

TEST(Council, EveryRankLearnsTheDevicesOfAll) {
  const Decision decision = Decided({IsReadyOn({0, kMainMemory, 0, 0}),
                                     IsReadyOn({1, kMainMemory, 1, 2}),
                                     IsReadyOn({0, kMainMemory, 0, 0})});
  EXPECT_EQ(decision.kind, Decision::kCommit);
  ASSERT_EQ(decision.devices.size(), 4u);
  EXPECT_EQ(*decision.devices[0], (Devices{0, 1, 0}));
  EXPECT_EQ(*decision.devices[1], (Devices{kMainMemory, kMainMemory, kMainMemory}));
  EXPECT_EQ(decision.devices[2], decision.devices[0]) << "the same object";
  EXPECT_EQ(*decision.devices[3], (Devices{0, 2, 0}));
}

TEST(Council, NothingIsSaidOfDevicesWhereAllIsInMainMemory) {
  const Decision decision = Decided({IsReadyOn({}), IsReadyOn({})});
  EXPECT_EQ(decision.kind, Decision::kCommit);
  EXPECT_TRUE(decision.devices.empty());
}

TEST(Council, RejectsATensorThatIsOnAGpuOnSomeRanksOnly) {
  for (const Devices& other : {Devices{}, Devices{0, 0}, Devices{kMainMemory, 0}}) {
    const Decision decision =
        Decided({IsReadyOn({0, kMainMemory}), IsReadyOn({1, kMainMemory}), IsReadyOn(other)});
    EXPECT_EQ(decision.kind, Decision::kEnd);
    EXPECT_EQ(decision.reason, "rank 2: other tensors are on GPUs than on rank 0");
  }
}

TEST(Council, NoNewBucketsForAPlanThatIsNotActiveOrAboutToEnd) {
  EXPECT_EQ(Decided({Says(Stand::kReady, 6, "", {1, 2}), Says(Stand::kReady, 6)}).kind,
            Decision::kCommit);
  EXPECT_EQ(Decided({Says(Stand::kActive, 6, "", {1, 2}), Says(Stand::kPausing, 6)}).kind,
            Decision::kPause);
}

// Invariant 4.
TEST(Council, AnEndTellsWhichBucketsAreCompleteEverywhere) {
  Statement first = Says(Stand::kActive, 9), second = Says(Stand::kEnding, 9, "no");
  first.completed = {4, 5, 6};
  second.completed = {5, 5, 5};
  const Decision decision = Decided({first, Says(Stand::kCaptured), second});
  EXPECT_EQ(decision.kind, Decision::kEnd);
  EXPECT_EQ(decision.everywhere, (std::vector<std::uint64_t>{4, 5, 5}));
  EXPECT_EQ(decision.anywhere, (std::vector<std::uint64_t>{5, 5, 6}));
}

// Invariant 5.
TEST(Council, TicketsAreFreeWhenNothingIsUnderWayAnywhere) {
  Statement quiet = Says(Stand::kEnded), busy = quiet;
  busy.under_way = true;
  EXPECT_EQ(Decided({quiet, quiet}).kind, Decision::kFree);
  EXPECT_EQ(Decided({quiet, busy}).kind, Decision::kWait);
  EXPECT_EQ(Decided({Says(Stand::kCaptured), quiet}).kind, Decision::kFree) << "heard of it later";
}

TEST(Council, APlanMayRestIfItsLastPassIsOverEverywhere) {
  Statement quiet = Says(Stand::kActive, 7);
  quiet.idle_ms = 30;
  Statement other = quiet;
  other.idle_ms = 4;
  const Decision decision = Decided({quiet, other});
  EXPECT_EQ(decision.kind, Decision::kWait);
  EXPECT_TRUE(decision.may_rest);
  EXPECT_EQ(decision.idle_ms, 30) << "on rank 0";
  EXPECT_EQ(decision.from_pass, 8u);
  for (int why = 0; why < 4; ++why) {
    Statement not_quiet = other;
    if (why == 0) not_quiet.under_way = true;
    if (why == 1) not_quiet.whole = false;
    if (why == 2) not_quiet.begun = 8;
    if (why == 3) not_quiet.stand = Stand::kPausing;
    EXPECT_FALSE(Decided({quiet, not_quiet}).may_rest) << why;
  }
}

TEST(Council, APlanThatRestsIsNotAboutToBeReady) {
  const Decision decision = Decided({Says(Stand::kResting, 7), Says(Stand::kReady, 8)});
  EXPECT_EQ(decision.kind, Decision::kWait);
  EXPECT_EQ(decision.reason, "");
}

TEST(Council, ForgetsWhatNoRankHasAGraphOf) {
  Statement gone = Says(Stand::kActive, 7);
  gone.bound = false;
  EXPECT_EQ(Decided({gone, gone}).kind, Decision::kForget);
  EXPECT_EQ(Decided({gone, Says(Stand::kActive, 7)}).kind, Decision::kWait);
  Statement busy = gone;
  busy.under_way = true;
  EXPECT_EQ(Decided({gone, busy}).kind, Decision::kWait);
}

TEST(Council, OneDecisionAPlanInTheOrderOfHashes) {
  Statement ready = Says(Stand::kReady, 1);
  Statement failed = Says(Stand::kFailed, 0, "no");
  ready.hash = "q";
  failed.hash = "a";
  const auto decisions = Decide({ToRow({ready, failed}), ToRow({ready})});
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_EQ(decisions[0].hash, "a");
  EXPECT_EQ(decisions[0].kind, Decision::kEnd);
  EXPECT_EQ(decisions[1].hash, "q");
  EXPECT_EQ(decisions[1].kind, Decision::kCommit);
  EXPECT_EQ(decisions[1].from_pass, 2u);
}

}  // namespace
}  // namespace horovod_opt
