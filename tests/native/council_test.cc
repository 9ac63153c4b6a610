#include "council.h"

#include <gtest/gtest.h>

#include <utility>

namespace horovod_opt {
namespace {

Statement Says(Stand stand, std::uint64_t begun = 0, const std::string& reason = "",
               std::vector<std::int64_t> times = {}) {
  return {"p", stand, begun, reason, std::move(times), {}};
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
      {"p", Stand::kActive, 12345678901234, "", {7, 0, -3}, {0, 2}},
      {"q", Stand::kFailed, 0, "'a b': two\nlines ", {}, {}},
      {"r", Stand::kCaptured, 1, " ", {1}, {0}},
  };
  const auto read = FromRow(ToRow(statements));
  ASSERT_EQ(read.size(), statements.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].hash, statements[i].hash);
    EXPECT_EQ(read[i].stand, statements[i].stand);
    EXPECT_EQ(read[i].begun, statements[i].begun);
    EXPECT_EQ(read[i].times, statements[i].times);
    EXPECT_EQ(read[i].gpu_slots, statements[i].gpu_slots);
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
  } const cases[] = {{Stand::kFailed, Decision::kReject},
                     {Stand::kEnding, Decision::kEnd},
                     {Stand::kPausing, Decision::kPause}};
  for (const auto& one : cases) {
    const Decision decision =
        Decided({Says(Stand::kActive, 9), Says(one.stand, 4, "because"), Says(Stand::kActive, 6)});
    EXPECT_EQ(decision.kind, one.kind);
    EXPECT_EQ(decision.reason, "rank 1: because");
    EXPECT_EQ(decision.from_pass, 10u) << "no pass that any rank has begun is split";
  }
  EXPECT_EQ(Decided({Says(Stand::kReady), Says(Stand::kFailed)}).kind, Decision::kReject);
}

TEST(Council, WhatEndsForGoodGoesFirst) {
  EXPECT_EQ(Decided({Says(Stand::kPausing, 1, "a"), Says(Stand::kEnding, 1, "b")}).kind,
            Decision::kEnd);
  const Decision decision = Decided({Says(Stand::kPausing, 1, "a"), Says(Stand::kEnding, 1, "b"),
                                     Says(Stand::kFailed, 1, "c"), Says(Stand::kFailed, 1, "d")});
  EXPECT_EQ(decision.kind, Decision::kReject);
  EXPECT_EQ(decision.reason, "rank 2: c");
}

TEST(Council, RecutsByTheTimesOfRank0) {
  const Decision decision =
      Decided({Says(Stand::kActive, 6, "", {300, 100}), Says(Stand::kActive, 8, "", {1, 2})});
  EXPECT_EQ(decision.kind, Decision::kRecut);
  EXPECT_EQ(decision.from_pass, 9u);
  EXPECT_EQ(decision.times, (std::vector<std::int64_t>{300, 100}));
}

TEST(Council, NoNewBucketsForAPlanThatIsNotActiveOrAboutToEnd) {
  EXPECT_EQ(Decided({Says(Stand::kReady, 6, "", {1, 2}), Says(Stand::kReady, 6)}).kind,
            Decision::kCommit);
  EXPECT_EQ(Decided({Says(Stand::kActive, 6, "", {1, 2}), Says(Stand::kPausing, 6)}).kind,
            Decision::kPause);
}

TEST(Council, OneDecisionAPlanInTheOrderOfHashes) {
  const Statement ready{"q", Stand::kReady, 1, "", {}, {}};
  const Statement failed{"a", Stand::kFailed, 0, "no", {}, {}};
  const auto decisions = Decide({ToRow({ready, failed}), ToRow({ready})});
  ASSERT_EQ(decisions.size(), 2u);
  EXPECT_EQ(decisions[0].hash, "a");
  EXPECT_EQ(decisions[0].kind, Decision::kReject);
  EXPECT_EQ(decisions[1].hash, "q");
  EXPECT_EQ(decisions[1].kind, Decision::kCommit);
  EXPECT_EQ(decisions[1].from_pass, 2u);
}

}  // namespace
}  // namespace horovod_opt
