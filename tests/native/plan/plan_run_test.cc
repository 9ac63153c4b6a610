#include "horovod_opt/csrc/core/plan/plan_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace {

using namespace std::chrono_literals;
using Clock = PlanRun::Clock;

struct Numbered : Arrival {
  explicit Numbered(int n) : number(n) {}
  const int number;
};

int NumberOf(const ArrivalPtr& arrival) {
  return arrival == nullptr ? 0 : static_cast<const Numbered&>(*arrival).number;
}

std::vector<int> NumbersOf(const std::vector<ArrivalPtr>& arrivals) {
  std::vector<int> numbers;
  for (const ArrivalPtr& arrival : arrivals) numbers.push_back(NumberOf(arrival));
  return numbers;
}

// Slots a, b and c in buckets {a, b} and {c}, which have the bucket IDs 10 and 11 once committed.
// Pass kLast was the last one of the warm-up iterations.
class PlanRunTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kLast = 2;
  static constexpr int kBase = 10;  // first bucket ID

  PlanRunTest() {
    for (std::uint64_t iteration = 1; iteration <= kLast; ++iteration) Negotiated();
    EXPECT_EQ(run_.state(), PlanState::kReady);
    sent_ = 0;
  }

  PlanRun::Arrived Arrive(int slot, const std::string& difference = "") {
    ArrivalPtr arrival = std::make_unique<Numbered>(++sent_);
    const auto arrived = run_.Arrive(slot, difference, arrival, now_);
    const bool is_taken = arrived.route == Route::kPlanned || arrived.route == Route::kDeferred;
    EXPECT_EQ(arrival == nullptr, is_taken);
    return arrived;
  }

  // A whole iteration in the negotiated path.
  void Negotiated() {
    for (int slot = 0; slot < 3; ++slot) EXPECT_EQ(Arrive(slot).route, Route::kNegotiated);
  }

  // A whole iteration in the planned path; the slots arrive 1 ms after each other, from c to a.
  void Planned() {
    for (int slot = 2; slot >= 0; --slot) {
      now_ += 1ms;
      const auto arrived = Arrive(slot);
      EXPECT_EQ(arrived.route, Route::kPlanned);
      if (arrived.bucket_id == kNoBucket) continue;
      std::vector<int> bucket_ids;
      progress_ = run_.Finished(run_.Take(arrived.bucket_id, bucket_ids));
      EXPECT_TRUE(bucket_ids.empty());
    }
  }

  Work Take(int bucket_id) {
    std::vector<int> bucket_ids;
    Work work = run_.Take(bucket_id, bucket_ids);
    EXPECT_EQ(work.bucket_id, bucket_id);
    EXPECT_TRUE(bucket_ids.empty());
    return work;
  }

  static Decision Decided(Decision::Kind kind, std::uint64_t from_iteration,
                          const std::string& reason) {
    Decision decision;
    decision.hash = "p";
    decision.kind = kind;
    decision.from_iteration = from_iteration;
    decision.reason = reason;
    return decision;
  }

  PlanRun::Released Apply(Decision::Kind kind, std::uint64_t from_iteration = 0,
                          std::vector<int> bucket_ids = {kBase, kBase + 1}, Buckets rebuilt = {}) {
    return run_.Apply(Decided(kind, from_iteration, "they say"), std::move(bucket_ids),
                      std::move(rebuilt));
  }

  Vote CastVote(bool times = false) { return run_.CastVote(false, times, now_); }

  // As if this were the only rank, or `others` had completed each bucket so often.
  PlanRun::Released End(std::vector<std::uint64_t> others = {}) {
    const auto own = CastVote().completed;
    if (others.empty()) others = own;
    Decision decision = Decided(Decision::kEnd, run_.begun() + 1, "they say");
    decision.everywhere = decision.anywhere = own;
    for (std::size_t bucket = 0; bucket < own.size(); ++bucket) {
      decision.everywhere[bucket] = std::min(own[bucket], others[bucket]);
      decision.anywhere[bucket] = std::max(own[bucket], others[bucket]);
    }
    return run_.Apply(decision, {}, {});
  }

  PlanRun::Released Decided(Decision::Kind kind, std::uint64_t from_iteration = 0) {
    CastVote();
    return Apply(kind, from_iteration);
  }

  void Commit(std::uint64_t from_iteration) {
    Decided(Decision::kCommit, from_iteration);
    EXPECT_EQ(run_.state(), PlanState::kActive);
  }

  PlanRun run_{MakePlan("p", 3, {{0, 1}, {2}})};
  Clock::time_point now_{1s};
  int sent_ = 0;
  PlanRun::Progress progress_;
};

// Invariant 1.
TEST_F(PlanRunTest, TheNthArrivalOfASlotBelongsToIterationN) {
  Commit(kLast + 2);
  EXPECT_EQ(Arrive(0).route, Route::kNegotiated);
  EXPECT_EQ(Arrive(0).route, Route::kPlanned);
  // Another slot counts for itself, however late it is.
  EXPECT_EQ(Arrive(1).route, Route::kNegotiated);
  const auto arrived = Arrive(1);
  EXPECT_EQ(arrived.bucket_id, kBase);
  EXPECT_EQ(Take(kBase).iteration, kLast + 2);
}

TEST_F(PlanRunTest, AHeldArrivalCountsToo) {
  CastVote();
  EXPECT_EQ(Arrive(0).route, Route::kDeferred);
  EXPECT_EQ(NumbersOf(Apply(Decision::kCommit, kLast + 2).negotiated), std::vector<int>{1});
  EXPECT_EQ(Arrive(0).route, Route::kPlanned);
}

TEST_F(PlanRunTest, AnArrivalThatOverlapsIsRefusedAndNotCounted) {
  Commit(kLast + 1);
  EXPECT_EQ(Arrive(0).route, Route::kPlanned);
  EXPECT_EQ(Arrive(0).route, Route::kOverlaps);
  EXPECT_EQ(Arrive(1).bucket_id, kBase);
  EXPECT_EQ(Arrive(1).route, Route::kOverlaps);
  EXPECT_EQ(NumbersOf(Take(kBase).arrivals), (std::vector<int>{1, 3}));
  Arrive(0);
  Arrive(1);
  EXPECT_EQ(Take(kBase).iteration, kLast + 2);
}

TEST_F(PlanRunTest, HeldArrivalsOverlapOnlyIfThePlannedLaneTakesThem) {
  CastVote();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Arrive(2).route, Route::kDeferred);
  const auto released = Apply(Decision::kCommit, kLast + 3);
  EXPECT_EQ(NumbersOf(released.negotiated), (std::vector<int>{1, 2}));
  EXPECT_EQ(released.bucket_ids, std::vector<int>{kBase + 1});
  EXPECT_EQ(NumbersOf(released.overlapping), std::vector<int>{4});
  Take(kBase + 1);
  Arrive(2);
  EXPECT_EQ(Take(kBase + 1).iteration, kLast + 4) << "what is refused does not count";
}

// Invariant 2.
TEST_F(PlanRunTest, PlannedAreThePassesFromTheCommitToTheEnd) {
  Commit(kLast + 2);
  Negotiated();
  Planned();
  EXPECT_EQ(Arrive(0).route, Route::kPlanned);  // iteration kLast + 3
  Decided(Decision::kPause, kLast + 4);
  EXPECT_EQ(Arrive(2).bucket_id, kBase + 1);
  Take(kBase + 1);
  EXPECT_EQ(Arrive(2).route, Route::kNegotiated);
  EXPECT_EQ(Arrive(1).bucket_id, kBase);
  Take(kBase);
  EXPECT_EQ(Arrive(0).route, Route::kNegotiated);
}

TEST_F(PlanRunTest, AnEndDoesNotProlongWhatWasPaused) {
  Commit(kLast + 1);
  Decided(Decision::kPause, kLast + 1);
  Negotiated();
  EXPECT_TRUE(End().negotiated.empty());
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
  EXPECT_EQ(NumbersOf(End().negotiated), (std::vector<int>{2, 3}));
  Negotiated();
}

TEST_F(PlanRunTest, ADifferentTensorThatIsHeldEndsThePlanIfItsIterationBecomesPlanned) {
  Arrive(0);
  CastVote();
  EXPECT_EQ(Arrive(1, "it is green").route, Route::kDeferred)
      << "its iteration has begun: never planned";
  EXPECT_EQ(Arrive(0, "it is blue").route, Route::kDeferred);
  const auto released = Apply(Decision::kCommit, kLast + 2);
  EXPECT_TRUE(released.news);
  EXPECT_TRUE(released.negotiated.empty());
  EXPECT_EQ(CastVote().reason, "'a': it is blue");
  EXPECT_EQ(NumbersOf(End().negotiated), (std::vector<int>{2, 3}));
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
  const auto released = End({0, 0});
  EXPECT_EQ(NumbersOf(released.negotiated), (std::vector<int>{1, 2}));
  EXPECT_TRUE(released.owed.empty()) << "it was announced";
  EXPECT_TRUE(CastVote().under_way) << "and is still in nobody's log";
  Apply(Decision::kWait);
  EXPECT_TRUE(Take(kBase + 1).slots.empty());
  EXPECT_FALSE(CastVote().under_way);
  Apply(Decision::kWait);
  Negotiated();
}

TEST_F(PlanRunTest, AnEndLeavesWhatIsCompleteEverywhere) {
  Commit(kLast + 1);
  Arrive(2);
  EXPECT_TRUE(End({0, 1}).negotiated.empty());
  EXPECT_TRUE(CastVote().under_way);
  Apply(Decision::kWait);
  const Work work = Take(kBase + 1);
  EXPECT_EQ(NumbersOf(work.arrivals), std::vector<int>{1});
  EXPECT_TRUE(CastVote().under_way) << "not reduced";
  Apply(Decision::kWait);
  run_.Finished(work);
  EXPECT_FALSE(CastVote().under_way);
}

TEST_F(PlanRunTest, AnEndOwesTheAnnouncementOfWhatOthersHaveAnnounced) {
  Commit(kLast + 1);
  Arrive(0);
  const auto released = End({1, 1});
  EXPECT_EQ(NumbersOf(released.negotiated), std::vector<int>{1});
  EXPECT_EQ(released.owed, (std::vector<int>{kBase, kBase + 1}));
  EXPECT_TRUE(released.news) << "in the next vote";
  EXPECT_TRUE(End().negotiated.empty()) << "once";
  EXPECT_TRUE(Take(kBase).slots.empty());
  EXPECT_TRUE(Take(kBase + 1).slots.empty());
  EXPECT_FALSE(CastVote().under_way);
}

TEST_F(PlanRunTest, TakenBackInTheSecondIterationOfABucket) {
  Commit(kLast + 1);
  Planned();
  Arrive(2);
  Arrive(1);
  const auto released = End({1, 1});
  EXPECT_EQ(released.negotiated.size(), 2u);
  EXPECT_TRUE(Take(kBase + 1).slots.empty());
}

TEST_F(PlanRunTest, RestsAndIsReadyAfterItsNextIteration) {
  Commit(kLast + 1);
  Planned();
  const auto freed = Decided(Decision::kRest, kLast + 2).freed;
  EXPECT_EQ(freed, (std::vector<int>{kBase, kBase + 1}));
  EXPECT_FALSE(run_.Committed());
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
  EXPECT_EQ(Decided(Decision::kRest, kLast + 1).freed,
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
  const auto released = Apply(Decision::kForget);
  EXPECT_EQ(released.freed, (std::vector<int>{kBase, kBase + 1}));
  EXPECT_EQ(released.negotiated.size(), 1u);
  EXPECT_EQ(run_.state(), PlanState::kCaptured);
  EXPECT_EQ(run_.begun(), 1u);
  Arrive(0);
  Arrive(2);
  Negotiated();
  EXPECT_EQ(run_.state(), PlanState::kReady);
}

TEST_F(PlanRunTest, SaysWhatTheVoteNeedsToGiveItsTicketsAway) {
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
  EXPECT_EQ(vote.completed, (std::vector<std::uint64_t>{0, 0}));
  Apply(Decision::kWait);
  Arrive(0);
  now_ += 2s;
  vote = CastVote();
  EXPECT_EQ(vote.completed, (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(vote.idle_ms, 2000);
  Apply(Decision::kWait);
  Arrive(1);
  run_.Finished(Take(kBase));
  run_.Finished(Take(kBase + 1));
  vote = CastVote();
  EXPECT_FALSE(vote.under_way);
  EXPECT_TRUE(vote.whole);
}

// Invariant 3.
TEST_F(PlanRunTest, WhileHeldNothingIsLetThroughAndNoIterationBegins) {
  Commit(kLast + 1);
  EXPECT_EQ(CastVote().begun, kLast);
  EXPECT_EQ(Arrive(2).route, Route::kDeferred);
  const auto arrived = Arrive(0);
  EXPECT_EQ(arrived.route, Route::kDeferred);
  EXPECT_EQ(arrived.bucket_id, kNoBucket);
  EXPECT_EQ(CastVote().begun, kLast);
  const auto released = Apply(Decision::kWait);
  EXPECT_EQ(released.bucket_ids, std::vector<int>{kBase + 1});
  EXPECT_TRUE(released.negotiated.empty());
  EXPECT_EQ(run_.begun(), kLast + 1);
  EXPECT_EQ(NumbersOf(Take(kBase + 1).arrivals), std::vector<int>{1});
  EXPECT_EQ(Arrive(1).bucket_id, kBase);
}

TEST_F(PlanRunTest, HeldArrivalsTakeTheLaneThatIsDecided) {
  for (const auto kind : {Decision::kCommit, Decision::kPause}) {
    CastVote();
    for (int slot : {1, 2, 0}) EXPECT_EQ(Arrive(slot).route, Route::kDeferred);
    const auto released = Apply(kind, run_.begun() + 1);
    if (kind == Decision::kCommit) {
      EXPECT_TRUE(released.negotiated.empty());
      EXPECT_EQ(released.bucket_ids, (std::vector<int>{kBase + 1, kBase}));
      EXPECT_EQ(NumbersOf(Take(kBase).arrivals), (std::vector<int>{3, 1}));
      Take(kBase + 1);
    } else {
      EXPECT_EQ(NumbersOf(released.negotiated), (std::vector<int>{4, 5, 6}));
      EXPECT_TRUE(released.bucket_ids.empty());
    }
  }
  Negotiated();
}

// Invariant 4.
TEST_F(PlanRunTest, TheArrivalThatCompletesABucketAnnouncesIt) {
  Commit(kLast + 1);
  for (std::uint64_t iteration = kLast + 1; iteration < kLast + 4; ++iteration) {
    EXPECT_EQ(Arrive(1).bucket_id, kNoBucket);
    EXPECT_EQ(Arrive(2).bucket_id, kBase + 1);
    now_ += 1s;
    EXPECT_EQ(Arrive(0).bucket_id, kBase);
    const Work work = Take(kBase);
    EXPECT_EQ(work.plan, &run_.plan());
    EXPECT_EQ(work.iteration, iteration);
    EXPECT_EQ(work.slots, (std::vector<int>{0, 1}));
    EXPECT_EQ(NumbersOf(work.arrivals), (std::vector<int>{sent_, sent_ - 2}));
    EXPECT_EQ(work.last_arrival, now_);
    EXPECT_FALSE(run_.Finished(work).iteration_over);
    EXPECT_TRUE(run_.Finished(Take(kBase + 1)).iteration_over);
  }
  EXPECT_EQ(run_.iterations_done(), 3u);
  EXPECT_EQ(run_.filling().times_last(), (std::vector<std::uint64_t>{3, 0, 3}));
}

TEST_F(PlanRunTest, OneBucketIsTakenOncePerAnnouncement) {
  Commit(kLast + 1);
  std::vector<int> bucket_ids;
  Arrive(0);
  EXPECT_THROW(run_.Take(kBase, bucket_ids), std::logic_error);
  Arrive(1);
  Take(kBase);
  EXPECT_THROW(run_.Take(kBase, bucket_ids), std::logic_error);
}

// Invariant 5.
TEST_F(PlanRunTest, ANewCutAppliesFromItsIterationAndTheOldOneCompletes) {
  Commit(kLast + 1);
  Arrive(0);
  Arrive(2);
  CastVote();
  Apply(Decision::kRebuild, kLast + 2, {20, 21}, {{2, 0}, {1}});
  EXPECT_EQ(run_.buckets(), (Buckets{{2, 0}, {1}}));
  Take(kBase + 1);
  EXPECT_EQ(Arrive(2).bucket_id, kNoBucket);  // iteration kLast + 2
  EXPECT_EQ(Arrive(1).bucket_id, kBase);      // iteration kLast + 1
  Take(kBase);
  EXPECT_EQ(Arrive(1).bucket_id, 21);
  EXPECT_EQ(Arrive(0).bucket_id, 20);
  const Work work = Take(20);
  EXPECT_EQ(work.iteration, kLast + 2);
  EXPECT_EQ(NumbersOf(work.arrivals), (std::vector<int>{3, 6}));
}

TEST_F(PlanRunTest, TimesAreMeansOfFivePassesAndAskForANewCutOnce) {
  Commit(kLast + 1);
  for (int iteration = 0; iteration < 5; ++iteration) {
    EXPECT_FALSE(progress_.news);
    EXPECT_TRUE(CastVote(true).times.empty());
    Apply(Decision::kWait);
    Planned();
  }
  EXPECT_TRUE(progress_.news);
  EXPECT_TRUE(CastVote().times.empty());
  EXPECT_EQ(CastVote(true).times, (std::vector<std::int64_t>{2000, 1000, 0}));
  Apply(Decision::kRebuild, kLast + 6, {20, 21}, {{2}, {1, 0}});
  Planned();
  EXPECT_FALSE(progress_.news);
  EXPECT_TRUE(CastVote(true).times.empty());
  run_.Restart();
  EXPECT_TRUE(CastVote(true).times.empty());
}

TEST_F(PlanRunTest, WaitingSinceNamesWhatIsHereAndWhatIsMissing) {
  Commit(kLast + 1);
  EXPECT_TRUE(run_.filling().WaitingSince(now_).empty());
  Arrive(1);
  now_ += 1s;
  Arrive(2);
  const auto waiting = run_.filling().WaitingSince(now_ - 1s);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].iteration, kLast + 1);
  EXPECT_EQ(waiting[0].here, std::vector<int>{1});
  EXPECT_EQ(waiting[0].missing, std::vector<int>{0});
  ASSERT_EQ(run_.filling().WaitingSince(now_).size(), 2u);
  EXPECT_TRUE(run_.filling().WaitingSince(now_)[1].missing.empty()) << "waits for other ranks";
}

}  // namespace
}  // namespace horovod_opt
