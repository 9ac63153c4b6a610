#include "horovod_opt/csrc/core/plan/plan_run.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/native/plan/plan_run_case.h"

namespace horovod_opt {
namespace plan_run_test {

using namespace std::chrono_literals;

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

TEST_F(PlanRunTest, ADeferredArrivalCountsToo) {
  CastVote();
  EXPECT_EQ(Arrive(0).route, Route::kDeferred);
  EXPECT_EQ(NumbersOf(Apply(Decision::kCommit, kLast + 2).to_negotiate), std::vector<int>{1});
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

TEST_F(PlanRunTest, DeferredArrivalsOverlapOnlyIfThePlannedPathTakesThem) {
  CastVote();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Arrive(2).route, Route::kDeferred);
  const auto effects = Apply(Decision::kCommit, kLast + 3);
  EXPECT_EQ(NumbersOf(effects.to_negotiate), (std::vector<int>{1, 2}));
  EXPECT_EQ(effects.bucket_ids, std::vector<int>{kBase + 1});
  EXPECT_EQ(NumbersOf(effects.to_refuse), std::vector<int>{4});
  Take(kBase + 1);
  Arrive(2);
  EXPECT_EQ(Take(kBase + 1).iteration, kLast + 4) << "what is refused does not count";
}

// Invariant 2.
TEST_F(PlanRunTest, PlannedAreTheIterationsFromTheCommitToTheEnd) {
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

// Invariant 3.
TEST_F(PlanRunTest, WhileDeferredNothingIsLetThroughAndNoIterationBegins) {
  Commit(kLast + 1);
  EXPECT_EQ(CastVote().last_iteration, kLast);
  EXPECT_EQ(Arrive(2).route, Route::kDeferred);
  const auto arrived = Arrive(0);
  EXPECT_EQ(arrived.route, Route::kDeferred);
  EXPECT_EQ(arrived.bucket_id, kNoBucket);
  EXPECT_EQ(CastVote().last_iteration, kLast);
  const auto effects = Apply(Decision::kWait);
  EXPECT_EQ(effects.bucket_ids, std::vector<int>{kBase + 1});
  EXPECT_TRUE(effects.to_negotiate.empty());
  EXPECT_EQ(run_.last_iteration(), kLast + 1);
  EXPECT_EQ(NumbersOf(Take(kBase + 1).arrivals), std::vector<int>{1});
  EXPECT_EQ(Arrive(1).bucket_id, kBase);
}

TEST_F(PlanRunTest, DeferredArrivalsTakeThePathThatIsDecided) {
  for (const auto kind : {Decision::kCommit, Decision::kPause}) {
    CastVote();
    for (int slot : {1, 2, 0}) EXPECT_EQ(Arrive(slot).route, Route::kDeferred);
    const auto effects = Apply(kind, run_.last_iteration() + 1);
    if (kind == Decision::kCommit) {
      EXPECT_TRUE(effects.to_negotiate.empty());
      EXPECT_EQ(effects.bucket_ids, (std::vector<int>{kBase + 1, kBase}));
      EXPECT_EQ(NumbersOf(Take(kBase).arrivals), (std::vector<int>{3, 1}));
      Take(kBase + 1);
    } else {
      EXPECT_EQ(NumbersOf(effects.to_negotiate), (std::vector<int>{4, 5, 6}));
      EXPECT_TRUE(effects.bucket_ids.empty());
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
    EXPECT_EQ(work.bucket->plan, &run_.plan());
    EXPECT_EQ(work.iteration, iteration);
    EXPECT_EQ(work.bucket->slots, (std::vector<int>{0, 1}));
    EXPECT_EQ(NumbersOf(work.arrivals), (std::vector<int>{sent_, sent_ - 2}));
    EXPECT_EQ(work.last_arrival, now_);
    EXPECT_FALSE(run_.MarkReduced(work).iteration_over);
    EXPECT_TRUE(run_.MarkReduced(Take(kBase + 1)).iteration_over);
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
TEST_F(PlanRunTest, NewBucketsApplyFromTheirIterationAndOldOnesComplete) {
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

TEST_F(PlanRunTest, TimesAreMeansOfSomeIterationsAndAskForNewBucketsOnce) {
  Commit(kLast + 1);
  for (int iteration = 0; iteration < kTimedIterations; ++iteration) {
    EXPECT_FALSE(progress_.news);
    EXPECT_TRUE(CastVote(true).times.empty());
    Apply(Decision::kWait);
    Planned();
  }
  EXPECT_TRUE(progress_.news);
  EXPECT_TRUE(CastVote().times.empty());
  EXPECT_EQ(CastVote(true).times, (std::vector<std::int64_t>{2000, 1000, 0}));
  Apply(Decision::kRebuild, kLast + kTimedIterations + 1, {20, 21}, {{2}, {1, 0}});
  Planned();
  EXPECT_FALSE(progress_.news);
  EXPECT_TRUE(CastVote(true).times.empty());
  run_.Restart();
  EXPECT_TRUE(CastVote(true).times.empty());
}

TEST_F(PlanRunTest, WaitingSinceNamesWhatIsHereAndWhatIsMissing) {
  Commit(kLast + 1);
  EXPECT_TRUE(run_.filling().LateBuckets(now_).empty());
  Arrive(1);
  now_ += 1s;
  Arrive(2);
  const auto waiting = run_.filling().LateBuckets(now_ - 1s);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].iteration, kLast + 1);
  EXPECT_EQ(waiting[0].here, std::vector<int>{1});
  EXPECT_EQ(waiting[0].missing, std::vector<int>{0});
  ASSERT_EQ(run_.filling().LateBuckets(now_).size(), 2u);
  EXPECT_TRUE(run_.filling().LateBuckets(now_)[1].missing.empty()) << "waits for other ranks";
}

}  // namespace plan_run_test
}  // namespace horovod_opt
