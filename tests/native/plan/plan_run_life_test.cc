// How a plan becomes ready, ends, pauses and starts anew (plan_run.h).

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "horovod_opt/csrc/core/plan/plan_run.h"
#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace plan_run_life_test {

// Slots a and b, in buckets of their own with the bucket IDs 0 and 1.
class PlanWarmUpTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kLast = kWarmUpIterations;

  PlanRun::ArrivalResult Send(int slot, const std::string& difference = "") {
    ArrivalPtr arrival = std::make_unique<Arrival>();
    return run_.Arrive(slot, difference, arrival, PlanRun::Clock::now());
  }

  Route Arrive(int slot) { return Send(slot).route; }

  // Negotiated.
  void Iteration() {
    for (int slot : {0, 1}) EXPECT_EQ(Arrive(slot), Route::kNegotiated);
  }

  Vote CastVote(bool joined = false) { return run_.CastVote(joined, false, PlanRun::Clock::now()); }
  PlanState StateInVote(bool joined = false) { return CastVote(joined).state; }

  PlanRun::Effects Apply(Decision::Kind kind, std::uint64_t from_iteration = 0) {
    Decision decision;
    decision.kind = kind;
    decision.from_iteration = from_iteration;
    decision.reason = "they say";
    // As if this were the only rank.
    decision.everywhere = decision.anywhere = decision.in_group = CastVote().completions;
    return run_.Apply(decision, {0, 1}, run_.plan().buckets);
  }

  // New buckets {{b, a}}, of which the bucket ID is 2.
  PlanRun::Effects RebuildBuckets(std::uint64_t from_iteration) {
    Decision decision;
    decision.kind = Decision::kRebuild;
    decision.from_iteration = from_iteration;
    return run_.Apply(decision, {2}, {{1, 0}});
  }

  void WarmUp() {
    for (std::uint64_t iteration = 1; iteration <= kLast; ++iteration) Iteration();
  }

  void Commit(std::uint64_t from_iteration) {
    EXPECT_EQ(StateInVote(), PlanState::kReady);
    Apply(Decision::kCommit, from_iteration);
  }

  // Takes the bucket and says which iteration it was of and what zeros have completed since.
  std::pair<std::uint64_t, std::vector<int>> Take(int bucket_id) {
    std::vector<int> bucket_ids;
    const Work work = run_.Take(bucket_id, bucket_ids);
    return {work.iteration, bucket_ids};
  }

  PlanRun run_{MakePlan("p", 2, {{0}, {1}})};
};

// Its first iterations went as planned.
class PlanEndTest : public PlanWarmUpTest {
 protected:
  PlanEndTest() { WarmUp(); }
};

// Invariant 9.
TEST_F(PlanWarmUpTest, CountsATensorOnceHoweverOftenItIsRefused) {
  std::mt19937 draw(7);
  for (std::uint64_t iteration = 1; iteration <= kLast + 5; ++iteration) {
    for (int slot : {0, 1}) {
      EXPECT_EQ(run_.state() == PlanState::kReady, iteration > kLast);
      while (draw() % 3 != 0) {
        EXPECT_EQ(Arrive(slot), Route::kNegotiated);
        run_.Refuse(slot);
      }
      EXPECT_EQ(Arrive(slot), Route::kNegotiated);
    }
    const Vote vote = CastVote();
    EXPECT_EQ(vote.last_iteration, iteration);
    EXPECT_TRUE(vote.whole);
    Apply(Decision::kWait);
  }
}

// The caller has given it up with its step.
TEST_F(PlanWarmUpTest, ATensorOfTheNextStepIsNotARefusedOneOnceMore) {
  const auto send = [&](int slot, std::int64_t step) {
    ArrivalPtr arrival = std::make_unique<Arrival>();
    arrival->step = step;
    arrival->in_turn = true;
    EXPECT_EQ(run_.Arrive(slot, "", arrival, PlanRun::Clock::now()).route, Route::kNegotiated);
  };
  for (int step = 1; step <= 4; ++step) {
    send(0, step);
    send(1, step);
    run_.Refuse(1);
    EXPECT_EQ(CastVote().last_iteration, static_cast<std::uint64_t>(step));
    Apply(Decision::kWait);
  }
}

TEST_F(PlanWarmUpTest, IsReadyOnceEverySlotHasArrivedInAllWarmUpIterations) {
  for (std::uint64_t iteration = 1; iteration < kLast; ++iteration) Iteration();
  EXPECT_FALSE(Send(1).news);
  EXPECT_EQ(StateInVote(), PlanState::kCaptured);
  Apply(Decision::kWait);
  EXPECT_TRUE(Send(0).news);
  EXPECT_EQ(StateInVote(), PlanState::kReady);
  Apply(Decision::kWait);
  EXPECT_FALSE(Send(1).news);
  EXPECT_EQ(CastVote().last_iteration, kLast + 1);
}

TEST_F(PlanWarmUpTest, FailsIfASlotArrivesWhileAnotherIsMissing) {
  for (std::uint64_t iteration = 1; iteration < kLast; ++iteration) Iteration();
  EXPECT_FALSE(Send(1).news);
  const auto arrived = Send(1);
  EXPECT_EQ(arrived.route, Route::kNegotiated);
  EXPECT_TRUE(arrived.news);
  EXPECT_EQ(StateInVote(), PlanState::kFailed);
  EXPECT_EQ(run_.reason(), "'a' is not executed in every iteration");
}

TEST_F(PlanWarmUpTest, FailsIfTheFirstIterationDiffers) {
  Send(0);
  const auto arrived = Send(1, "it is green");
  EXPECT_EQ(arrived.route, Route::kNegotiated);
  EXPECT_TRUE(arrived.news);
  EXPECT_EQ(run_.reason(), "'b': it is green");
  EXPECT_EQ(StateInVote(), PlanState::kFailed);
  Apply(Decision::kEnd, kLast + 1);
  EXPECT_EQ(run_.state(), PlanState::kEnded);
  EXPECT_EQ(run_.reason(), "they say");
  Iteration();
}

TEST_F(PlanEndTest, DrainReturnsWhatIsNotReduced) {
  Commit(kLast + 1);
  Arrive(1);
  StateInVote();
  Arrive(0);
  EXPECT_EQ(run_.Close().size(), 2u);
  EXPECT_TRUE(run_.Close().empty());
}

TEST_F(PlanEndTest, EndBeforeItIsActiveIsAFailure) {
  run_.End("no more");
  EXPECT_EQ(Arrive(0), Route::kNegotiated);
  EXPECT_EQ(StateInVote(), PlanState::kFailed);
  EXPECT_EQ(run_.reason(), "no more");
}

TEST_F(PlanEndTest, EndHoldsArrivalsUntilTheVoteHasMet) {
  Commit(kLast + 1);
  run_.End("no more");
  EXPECT_EQ(Arrive(0), Route::kDeferred);
  EXPECT_EQ(StateInVote(), PlanState::kEnding);
  EXPECT_EQ(Apply(Decision::kEnd, kLast + 1).to_negotiate.size(), 1u);
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_EQ(run_.state(), PlanState::kEnded);
  run_.End("again");
  EXPECT_EQ(run_.state(), PlanState::kEnded);
  EXPECT_EQ(run_.reason(), "they say");
}

TEST_F(PlanEndTest, EndDuringAVoteWaitsForTheNextOne) {
  Commit(kLast + 1);
  for (const auto kind : {Decision::kWait, Decision::kRebuild}) {
    StateInVote();
    run_.End("no more");
    EXPECT_EQ(Arrive(0), Route::kDeferred);
    const auto effects = kind == Decision::kWait ? Apply(kind) : RebuildBuckets(kLast + 1);
    EXPECT_TRUE(effects.to_negotiate.empty() && effects.bucket_ids.empty());
    const Vote vote = CastVote();
    EXPECT_EQ(vote.state, PlanState::kEnding);
    EXPECT_EQ(vote.reason, "no more");
  }
  EXPECT_EQ(Apply(Decision::kEnd, kLast + 1).to_negotiate.size(), 2u);
}

TEST_F(PlanEndTest, AFailureWhileAllOthersCommitEndsThePlan) {
  EXPECT_EQ(StateInVote(), PlanState::kReady);
  run_.End("no more");
  EXPECT_EQ(Arrive(0), Route::kDeferred);
  EXPECT_TRUE(Apply(Decision::kCommit, kLast + 1).bucket_ids.empty());
  EXPECT_EQ(Arrive(1), Route::kDeferred);
  const Vote vote = CastVote();
  EXPECT_EQ(vote.state, PlanState::kEnding);
  EXPECT_EQ(vote.reason, "no more");
  EXPECT_EQ(vote.last_iteration, kLast);
  const auto effects = Apply(Decision::kEnd);
  EXPECT_EQ(effects.to_negotiate.size(), 2u);
  EXPECT_TRUE(effects.bucket_ids.empty());
}

TEST_F(PlanEndTest, AnEndWhileThePlanIsPausedIsNotForgotten) {
  Commit(kLast + 1);
  EXPECT_EQ(StateInVote(), PlanState::kActive);
  run_.End("no more");
  EXPECT_EQ(Arrive(0), Route::kDeferred);
  EXPECT_EQ(Apply(Decision::kPause, kLast + 1).to_negotiate.size(), 1u);
  const Vote vote = CastVote();
  EXPECT_EQ(vote.state, PlanState::kFailed);
  EXPECT_EQ(vote.reason, "no more");
}

TEST_F(PlanEndTest, AFailureKeepsItsReasonUntilItIsDecided) {
  EXPECT_EQ(StateInVote(), PlanState::kReady);
  run_.Fail("because");
  Apply(Decision::kWait);
  EXPECT_EQ(CastVote().reason, "because");
}

TEST_F(PlanEndTest, ARankThatHasJoinedSaysSo) {
  EXPECT_EQ(StateInVote(true), PlanState::kCaptured)
      << "ready, but it would never send its tensors";
  Apply(Decision::kWait);
  EXPECT_EQ(run_.state(), PlanState::kReady);
  Commit(kLast + 1);
  const Vote vote = CastVote(true);
  EXPECT_EQ(vote.state, PlanState::kPausing);
  EXPECT_EQ(vote.reason, "has joined");
  Apply(Decision::kPause, kLast + 1);
  EXPECT_EQ(StateInVote(true), PlanState::kCaptured);
}

TEST_F(PlanEndTest, ZerosForThePlannedPassesThatOthersHaveBegun) {
  Commit(kLast + 3);  // others have begun the iteration before, which is negotiated
  EXPECT_TRUE(run_.SupplyZeros().empty()) << "active";
  EXPECT_EQ(StateInVote(true), PlanState::kPausing);
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
  StateInVote(true);
  Apply(Decision::kPause, kLast + 3);
  EXPECT_EQ(run_.SupplyZeros(), (std::vector<int>{1}));
  std::vector<int> bucket_ids;
  const Work sent = run_.Take(0, bucket_ids);
  EXPECT_EQ(sent.iteration, kLast + 1);
  EXPECT_NE(sent.arrivals[0], nullptr);
  const Work zeros = run_.Take(0, bucket_ids);
  EXPECT_EQ(zeros.iteration, kLast + 2);
  EXPECT_EQ(zeros.arrivals[0], nullptr);
}

// Else a bucket could become complete after this rank has said which ones are.
TEST_F(PlanEndTest, NoZerosWhileDeferred) {
  Commit(kLast + 3);
  StateInVote(true);
  Apply(Decision::kPause, kLast + 5);
  EXPECT_EQ(run_.SupplyZeros(), (std::vector<int>{0, 1}));
  StateInVote(true);
  EXPECT_EQ(Take(0).second, std::vector<int>{});
  Apply(Decision::kWait);
  EXPECT_EQ(run_.SupplyZeros(), std::vector<int>{0});
}

// What others have begun is negotiated: the join supplies zeros there.
TEST_F(PlanEndTest, NoZerosOnceThePlanHasEnded) {
  Commit(kLast + 3);
  StateInVote(true);
  Apply(Decision::kPause, kLast + 5);
  run_.Fail("no more");
  Apply(Decision::kEnd, kLast + 5);
  EXPECT_TRUE(run_.SupplyZeros().empty());
}

TEST_F(PlanEndTest, RestartCountsAndWarmsUpAnew) {
  Commit(kLast + 1);
  StateInVote(true);
  Apply(Decision::kPause, kLast + 1);
  run_.Restart();
  EXPECT_EQ(run_.last_iteration(), 0u);
  for (std::uint64_t iteration = 1; iteration < kLast; ++iteration) Iteration();
  EXPECT_EQ(Arrive(0), Route::kNegotiated);
  EXPECT_EQ(StateInVote(), PlanState::kCaptured);
  Apply(Decision::kWait);
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_TRUE(run_.IsCommitted());
  Commit(kLast + 1);
  EXPECT_EQ(Arrive(0), Route::kPlanned);
  EXPECT_EQ(Take(0).first, kLast + 1);
}

TEST_F(PlanEndTest, RestartOfAPlanThatIsStillActiveWarmsItUpToo) {
  Commit(kLast + 1);
  run_.Restart();
  EXPECT_EQ(StateInVote(), PlanState::kCaptured);
  Apply(Decision::kWait);
  WarmUp();
  Commit(kLast + 1);
  EXPECT_EQ(Arrive(0), Route::kPlanned);
}

TEST_F(PlanEndTest, RestartKeepsTheNewBuckets) {
  Commit(kLast + 1);
  StateInVote();
  RebuildBuckets(kLast + 1);
  run_.Restart();
  WarmUp();
  Commit(kLast + 1);
  EXPECT_EQ(run_.buckets(), (Buckets{{1, 0}}));
  EXPECT_EQ(Arrive(0), Route::kPlanned);
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(Take(2).first, kLast + 1);
}

TEST_F(PlanEndTest, RestartInAPassFailsAndItsBucketsCanStillBeTaken) {
  Commit(kLast + 1);
  EXPECT_EQ(Arrive(0), Route::kPlanned);
  StateInVote();
  RebuildBuckets(kLast + 2);
  run_.Restart();
  EXPECT_EQ(StateInVote(), PlanState::kFailed);
  EXPECT_EQ(run_.reason(), "an iteration was under way when all ranks had joined");
  EXPECT_EQ(Take(0).first, kLast + 1);
}

}  // namespace plan_run_life_test
}  // namespace horovod_opt
