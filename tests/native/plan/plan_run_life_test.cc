// How a plan becomes ready, ends, pauses and starts anew (plan_run.h).

#include <gtest/gtest.h>

#include <utility>

#include "horovod_opt/csrc/core/plan/plan_run.h"
#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace {

// Slots a and b, in buckets of their own with the tickets 0 and 1.
class PlanShadowTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kLast = 2;  // pass that is shadowed

  PlanRun::Arrived Send(int slot, const std::string& difference = "") {
    ArrivalPtr arrival = std::make_unique<Arrival>();
    return run_.Arrive(slot, difference, arrival, PlanRun::Clock::now());
  }

  Route Arrive(int slot) { return Send(slot).route; }

  // Negotiated.
  void Pass() {
    for (int slot : {0, 1}) EXPECT_EQ(Arrive(slot), Route::kNegotiated);
  }

  Statement Hold(bool joined = false) { return run_.Hold(joined, false, PlanRun::Clock::now()); }
  Stand StandHeld(bool joined = false) { return Hold(joined).stand; }

  PlanRun::Released Apply(Decision::Kind kind, std::uint64_t from_pass = 0) {
    Decision decision;
    decision.kind = kind;
    decision.from_pass = from_pass;
    decision.reason = "they say";
    // As if this were the only rank.
    decision.everywhere = decision.anywhere = Hold().completed;
    return run_.Apply(decision, {0, 1}, {});
  }

  // New buckets {{b, a}}, of which the ticket is 2.
  PlanRun::Released Recut(std::uint64_t from_pass) {
    Decision decision;
    decision.kind = Decision::kRecut;
    decision.from_pass = from_pass;
    return run_.Apply(decision, {2}, {{1, 0}});
  }

  void Shadow() {
    for (std::uint64_t pass = 1; pass <= kLast; ++pass) Pass();
  }

  void Commit(std::uint64_t from_pass) {
    EXPECT_EQ(StandHeld(), Stand::kReady);
    Apply(Decision::kCommit, from_pass);
  }

  // Takes the bucket and says which pass it was of and what zeros have completed since.
  std::pair<std::uint64_t, std::vector<int>> Take(int ticket) {
    std::vector<int> tickets;
    const Work work = run_.Take(ticket, tickets);
    return {work.pass, tickets};
  }

  PlanRun run_{MakePlan("p", 2, {{0}, {1}})};
};

// Its first passes went as planned.
class PlanEndTest : public PlanShadowTest {
 protected:
  PlanEndTest() { Shadow(); }
};

TEST_F(PlanShadowTest, IsReadyOnceEverySlotHasArrivedInAllPassesThatAreShadowed) {
  for (std::uint64_t pass = 1; pass < kLast; ++pass) Pass();
  EXPECT_FALSE(Send(1).news);
  EXPECT_EQ(StandHeld(), Stand::kCaptured);
  Apply(Decision::kWait);
  EXPECT_TRUE(Send(0).news);
  EXPECT_EQ(StandHeld(), Stand::kReady);
  Apply(Decision::kWait);
  EXPECT_FALSE(Send(1).news);
  EXPECT_EQ(Hold().begun, kLast + 1);
}

TEST_F(PlanShadowTest, FailsIfASlotArrivesWhileAnotherIsMissing) {
  for (std::uint64_t pass = 1; pass < kLast; ++pass) Pass();
  EXPECT_FALSE(Send(1).news);
  const auto arrived = Send(1);
  EXPECT_EQ(arrived.route, Route::kNegotiated);
  EXPECT_TRUE(arrived.news);
  EXPECT_EQ(StandHeld(), Stand::kFailed);
  EXPECT_EQ(run_.reason(), "'a' is not executed in each pass");
}

TEST_F(PlanShadowTest, FailsIfTheFirstPassDiffers) {
  Send(0);
  const auto arrived = Send(1, "it is green");
  EXPECT_EQ(arrived.route, Route::kNegotiated);
  EXPECT_TRUE(arrived.news);
  EXPECT_EQ(run_.reason(), "'b': it is green");
  EXPECT_EQ(StandHeld(), Stand::kFailed);
  Apply(Decision::kEnd, kLast + 1);
  EXPECT_EQ(run_.stand(), Stand::kEnded);
  EXPECT_EQ(run_.reason(), "they say");
  Pass();
}

TEST_F(PlanEndTest, DrainReturnsWhatIsNotReduced) {
  Commit(kLast + 1);
  Arrive(1);
  StandHeld();
  Arrive(0);
  EXPECT_EQ(run_.Drain().size(), 2u);
  EXPECT_TRUE(run_.Drain().empty());
}

TEST_F(PlanEndTest, EndBeforeItIsActiveIsAFailure) {
  run_.End("no more");
  EXPECT_EQ(Arrive(0), Route::kNegotiated);
  EXPECT_EQ(StandHeld(), Stand::kFailed);
  EXPECT_EQ(run_.reason(), "no more");
}

TEST_F(PlanEndTest, EndHoldsArrivalsUntilTheCouncilHasMet) {
  Commit(kLast + 1);
  run_.End("no more");
  EXPECT_EQ(Arrive(0), Route::kHeld);
  EXPECT_EQ(StandHeld(), Stand::kEnding);
  EXPECT_EQ(Apply(Decision::kEnd, kLast + 1).negotiated.size(), 1u);
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_EQ(run_.stand(), Stand::kEnded);
  run_.End("again");
  EXPECT_EQ(run_.stand(), Stand::kEnded);
  EXPECT_EQ(run_.reason(), "they say");
}

TEST_F(PlanEndTest, EndDuringACouncilWaitsForTheNextOne) {
  Commit(kLast + 1);
  for (const auto kind : {Decision::kWait, Decision::kRecut}) {
    StandHeld();
    run_.End("no more");
    EXPECT_EQ(Arrive(0), Route::kHeld);
    const auto released = kind == Decision::kWait ? Apply(kind) : Recut(kLast + 1);
    EXPECT_TRUE(released.negotiated.empty() && released.tickets.empty());
    const Statement statement = Hold();
    EXPECT_EQ(statement.stand, Stand::kEnding);
    EXPECT_EQ(statement.reason, "no more");
  }
  EXPECT_EQ(Apply(Decision::kEnd, kLast + 1).negotiated.size(), 2u);
}

TEST_F(PlanEndTest, AFailureWhileAllOthersCommitEndsThePlan) {
  EXPECT_EQ(StandHeld(), Stand::kReady);
  run_.End("no more");
  EXPECT_EQ(Arrive(0), Route::kHeld);
  EXPECT_TRUE(Apply(Decision::kCommit, kLast + 1).tickets.empty());
  EXPECT_EQ(Arrive(1), Route::kHeld);
  const Statement statement = Hold();
  EXPECT_EQ(statement.stand, Stand::kEnding);
  EXPECT_EQ(statement.reason, "no more");
  EXPECT_EQ(statement.begun, kLast);
  const auto released = Apply(Decision::kEnd);
  EXPECT_EQ(released.negotiated.size(), 2u);
  EXPECT_TRUE(released.tickets.empty());
}

TEST_F(PlanEndTest, AnEndWhileThePlanIsPausedIsNotForgotten) {
  Commit(kLast + 1);
  EXPECT_EQ(StandHeld(), Stand::kActive);
  run_.End("no more");
  EXPECT_EQ(Arrive(0), Route::kHeld);
  EXPECT_EQ(Apply(Decision::kPause, kLast + 1).negotiated.size(), 1u);
  const Statement statement = Hold();
  EXPECT_EQ(statement.stand, Stand::kFailed);
  EXPECT_EQ(statement.reason, "no more");
}

TEST_F(PlanEndTest, AFailureKeepsItsReasonUntilItIsDecided) {
  EXPECT_EQ(StandHeld(), Stand::kReady);
  run_.Fail("because");
  Apply(Decision::kWait);
  EXPECT_EQ(Hold().reason, "because");
}

TEST_F(PlanEndTest, ARankThatHasJoinedSaysSo) {
  EXPECT_EQ(StandHeld(true), Stand::kCaptured) << "ready, but it would never send its tensors";
  Apply(Decision::kWait);
  EXPECT_EQ(run_.stand(), Stand::kReady);
  Commit(kLast + 1);
  const Statement statement = Hold(true);
  EXPECT_EQ(statement.stand, Stand::kPausing);
  EXPECT_EQ(statement.reason, "has joined");
  Apply(Decision::kPause, kLast + 1);
  EXPECT_EQ(StandHeld(true), Stand::kCaptured);
}

TEST_F(PlanEndTest, ZerosForThePlannedPassesThatOthersHaveBegun) {
  Commit(kLast + 3);  // others have begun the pass before, which is negotiated
  EXPECT_TRUE(run_.SupplyZeros().empty()) << "active";
  EXPECT_EQ(StandHeld(true), Stand::kPausing);
  Apply(Decision::kPause, kLast + 5);
  EXPECT_EQ(run_.SupplyZeros(), (std::vector<int>{0, 1}));
  EXPECT_TRUE(run_.SupplyZeros().empty());
  using Taken = std::pair<std::uint64_t, std::vector<int>>;
  EXPECT_EQ(Take(0), (Taken{kLast + 3, {0}}));
  EXPECT_EQ(Take(0), (Taken{kLast + 4, {}}));
  EXPECT_EQ(Take(1), (Taken{kLast + 3, {1}}));
  EXPECT_EQ(Take(1), (Taken{kLast + 4, {}}));
}

TEST_F(PlanEndTest, ZerosAfterWhatTheRankHasSentItself) {
  Commit(kLast + 1);
  EXPECT_EQ(Arrive(0), Route::kPlanned);
  StandHeld(true);
  Apply(Decision::kPause, kLast + 3);
  EXPECT_EQ(run_.SupplyZeros(), (std::vector<int>{1}));
  std::vector<int> tickets;
  const Work sent = run_.Take(0, tickets);
  EXPECT_EQ(sent.pass, kLast + 1);
  EXPECT_NE(sent.arrivals[0], nullptr);
  const Work zeros = run_.Take(0, tickets);
  EXPECT_EQ(zeros.pass, kLast + 2);
  EXPECT_EQ(zeros.arrivals[0], nullptr);
}

// Else a bucket could become complete after this rank has said which ones are.
TEST_F(PlanEndTest, NoZerosWhileHeld) {
  Commit(kLast + 3);
  StandHeld(true);
  Apply(Decision::kPause, kLast + 5);
  EXPECT_EQ(run_.SupplyZeros(), (std::vector<int>{0, 1}));
  StandHeld(true);
  EXPECT_EQ(Take(0).second, std::vector<int>{});
  Apply(Decision::kWait);
  EXPECT_EQ(run_.SupplyZeros(), std::vector<int>{0});
}

// What others have begun is negotiated: the join supplies zeros there.
TEST_F(PlanEndTest, NoZerosOnceThePlanHasEnded) {
  Commit(kLast + 3);
  StandHeld(true);
  Apply(Decision::kPause, kLast + 5);
  run_.Fail("no more");
  Apply(Decision::kEnd, kLast + 5);
  EXPECT_TRUE(run_.SupplyZeros().empty());
}

TEST_F(PlanEndTest, RestartCountsAndShadowsAnew) {
  Commit(kLast + 1);
  StandHeld(true);
  Apply(Decision::kPause, kLast + 1);
  run_.Restart();
  EXPECT_EQ(run_.begun(), 0u);
  for (std::uint64_t pass = 1; pass < kLast; ++pass) Pass();
  EXPECT_EQ(Arrive(0), Route::kNegotiated);
  EXPECT_EQ(StandHeld(), Stand::kCaptured);
  Apply(Decision::kWait);
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_TRUE(run_.Committed());
  Commit(kLast + 1);
  EXPECT_EQ(Arrive(0), Route::kPlanned);
  EXPECT_EQ(Take(0).first, kLast + 1);
}

TEST_F(PlanEndTest, RestartOfAPlanThatIsStillActiveShadowsItToo) {
  Commit(kLast + 1);
  run_.Restart();
  EXPECT_EQ(StandHeld(), Stand::kCaptured);
  Apply(Decision::kWait);
  Shadow();
  Commit(kLast + 1);
  EXPECT_EQ(Arrive(0), Route::kPlanned);
}

TEST_F(PlanEndTest, RestartKeepsTheNewBuckets) {
  Commit(kLast + 1);
  StandHeld();
  Recut(kLast + 1);
  run_.Restart();
  Shadow();
  Commit(kLast + 1);
  EXPECT_EQ(run_.buckets(), (Buckets{{1, 0}}));
  EXPECT_EQ(Arrive(0), Route::kPlanned);
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(Take(2).first, kLast + 1);
}

TEST_F(PlanEndTest, RestartInAPassFailsAndItsBucketsCanStillBeTaken) {
  Commit(kLast + 1);
  EXPECT_EQ(Arrive(0), Route::kPlanned);
  StandHeld();
  Recut(kLast + 2);
  run_.Restart();
  EXPECT_EQ(StandHeld(), Stand::kFailed);
  EXPECT_EQ(run_.reason(), "a pass was under way when all ranks had joined");
  EXPECT_EQ(Take(0).first, kLast + 1);
}

}  // namespace
}  // namespace horovod_opt
