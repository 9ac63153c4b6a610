#include "horovod_opt/csrc/core/plan/recurring_calls.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/native/plan/plan_table_case.h"

namespace horovod_opt {
namespace recurring_calls_test {

TEST(RecurringCalls, ACallRecursWhenItWasNegotiatedOftenEnough) {
  RecurringCalls calls;
  for (int times = 1; times < kRecurrences; ++times) {
    EXPECT_FALSE(calls.Recurs(1));
    EXPECT_FALSE(calls.Recurs(2));
  }
  EXPECT_TRUE(calls.Recurs(1));
  EXPECT_TRUE(calls.Recurs(2));
  EXPECT_FALSE(calls.Recurs(1));  // counted anew
}

TEST(RecurringCalls, WhatWasNotNegotiatedForTheLongestTimeIsForgotten) {
  RecurringCalls calls(2);
  for (int times = 1; times < kRecurrences; ++times) EXPECT_FALSE(calls.Recurs(1));
  EXPECT_FALSE(calls.Recurs(2));
  EXPECT_FALSE(calls.Recurs(1 << 20));  // now 1 is forgotten
  EXPECT_FALSE(calls.Recurs(1));
  for (int times = 2; times < kRecurrences; ++times) EXPECT_FALSE(calls.Recurs(1));
  EXPECT_TRUE(calls.Recurs(1));
}

TEST(RecurringCalls, NamesThatNeverComeAgainCostNothing) {
  RecurringCalls calls(100);
  for (std::int64_t key = 1000; key < 100000; ++key) {
    EXPECT_FALSE(calls.Recurs(key));
    if (key % 20 == 0 && calls.Recurs(7)) return SUCCEED();
  }
  FAIL() << "one that recurs was forgotten";
}

// Invariant 1: ranks that see the same responses decide alike.
TEST(RecurringCalls, EqualOnAllRanks) {
  std::minstd_rand random(3);
  RecurringCalls first(50), second(50);
  int recurring = 0;
  for (int response = 0; response < 20000; ++response) {
    const auto key = static_cast<std::int64_t>(random() % 80);
    const bool recurs = first.Recurs(key);
    ASSERT_EQ(recurs, second.Recurs(key));
    recurring += recurs;
  }
  EXPECT_GT(recurring, 100);
}

Plan CallOf(const std::string& hash, std::int64_t key) {
  Plan call = MakePlan(hash, 1, {{0}}, key);
  call.is_call = true;
  return call;
}

// What another rank says of "call" when it has sent so many since.
Vote Proposes(std::uint64_t sent) {
  Vote vote;
  vote.hash = "call";
  vote.state = PlanState::kReady;
  vote.last_iteration = sent;
  return vote;
}

TEST_F(PlanTableTest, ACallIsPlannedAfterTheNextVote) {
  EXPECT_FALSE(plans_.Knows(7));
  EXPECT_EQ(Arrive(7), Route::kNegotiated);
  EXPECT_TRUE(plans_.Learn(CallOf("call", 7)));
  EXPECT_TRUE(plans_.Knows(7));
  EXPECT_TRUE(plans_.WantsVote());
  EXPECT_EQ(Arrive(7), Route::kNegotiated) << "the first one that counts";
  EXPECT_TRUE(HoldVote({ToRow({Proposes(2)})}).rejections.empty());
  EXPECT_EQ(ReportOf("call").state, "ready");
  EXPECT_EQ(Arrive(7), Route::kNegotiated) << "another rank had sent its second one before";
  EXPECT_EQ(ReportOf("call").state, "active");
  for (std::uint64_t iteration = 3; iteration <= 5; ++iteration) {
    EXPECT_EQ(Arrive(7), Route::kPlanned);
    EXPECT_EQ(Arrive(7), Route::kOverlaps);
    const Work work = plans_.Take(announced_.back());
    EXPECT_EQ(work.iteration, iteration);
    EXPECT_FALSE(plans_.MarkReduced(work));  // no iteration of training
  }
  EXPECT_EQ(announced_, std::vector<int>({0, 0, 0}));
}

TEST_F(PlanTableTest, ACallIsLearnedOnce) {
  EXPECT_TRUE(plans_.Learn(CallOf("call", 7)));
  EXPECT_FALSE(plans_.Learn(CallOf("call", 7)));
}

// One rank calls a group, another the same names singly: each proposes what it calls.
TEST_F(PlanTableTest, ACallThatIsAnotherOneOnSomeRankStaysNegotiatedOnAll) {
  PlanTable other(kCapacity, [](const auto&) { ADD_FAILURE(); }, [] {});
  Plan group = MakePlan("call-group", 2, {{0, 1}}, 70), single = CallOf("call-single", 80);
  group.is_call = true;
  for (int again = 0; again < 3; ++again) {
    EXPECT_EQ(plans_.Learn(group), again == 0) << "it would be voted on for ever";
    EXPECT_EQ(other.Learn(single), again == 0);
    const auto rows = ByRank({plans_.VoteRow(true, false), other.VoteRow(false, false)});
    EXPECT_TRUE(plans_.Apply(rows).rejections.empty());
    EXPECT_TRUE(other.Apply(rows).rejections.empty());
    EXPECT_EQ(Arrive(70), Route::kNegotiated);
    EXPECT_EQ(ArriveAt(other, 80), Route::kNegotiated);
    EXPECT_FALSE(plans_.Knows(70));
    EXPECT_TRUE(plans_.Reports().empty());
    EXPECT_TRUE(other.Reports().empty());
  }
  EXPECT_TRUE(announced_.empty());
  // What is the same on both is planned as before, and has one bucket ID.
  const Plan same = CallOf("call-same", 90);
  EXPECT_TRUE(plans_.Learn(same));
  EXPECT_TRUE(other.Learn(same));
  const auto rows = ByRank({plans_.VoteRow(true, false), other.VoteRow(false, false)});
  plans_.Apply(rows);
  EXPECT_EQ(Arrive(90), Route::kPlanned);
  EXPECT_EQ(announced_, std::vector<int>{0});
}

TEST_F(PlanTableTest, WithoutFreeBucketsACallStaysNegotiated) {
  Activate(MakePlan("p", kCapacity, {{0}, {1}, {2}, {3}, {4}}, 1));
  EXPECT_TRUE(plans_.Learn(CallOf("call", 70)));
  EXPECT_TRUE(HoldVote().rejections.empty()) << "nothing that a user could do about";
  EXPECT_EQ(Arrive(70), Route::kNegotiated);
}

TEST_F(PlanTableTest, CallsThatAreNotUsedAreForgottenForOthers) {
  for (int call = 0; call < kCapacity; ++call) {
    ASSERT_TRUE(plans_.Learn(CallOf("old" + std::to_string(call), 10 * call)));
    HoldVote();
  }
  ASSERT_TRUE(plans_.Learn(CallOf("new", 70)));
  HoldVote();  // all have just been learned
  EXPECT_TRUE(plans_.Knows(0));
  EXPECT_EQ(Arrive(70), Route::kNegotiated);
  EXPECT_EQ(Arrive(10), Route::kPlanned);  // under way: it stays
  later_ = std::chrono::seconds(2);
  HoldVote();
  EXPECT_FALSE(plans_.Knows(0));
  EXPECT_TRUE(plans_.Knows(10));
  EXPECT_EQ(Arrive(0), Route::kNegotiated);
  EXPECT_EQ(Arrive(70), Route::kPlanned);
  EXPECT_EQ(plans_.Reports().size(), static_cast<std::size_t>(kCapacity));
}

TEST_F(PlanTableTest, WhereNothingCanBeForgottenFewVotesAreAskedFor) {
  Activate(MakePlan("p", kCapacity, {{0}, {1}, {2}, {3}, {4}}, 1));
  EXPECT_TRUE(plans_.Learn(CallOf("call", 70)));
  HoldVote();
  const int before = meetings_;
  for (int call = 0; call < 1000; ++call) {
    EXPECT_EQ(Arrive(70), Route::kNegotiated);
    if (plans_.WantsVote()) HoldVote();
  }
  EXPECT_GT(meetings_, before) << "there may be room one day";
  EXPECT_LE(meetings_, before + 11);
}

TEST_F(PlanTableTest, WhereNothingCanBePlannedNoCallIs) {
  plans_.Disable("no memory");
  EXPECT_FALSE(plans_.Learn(CallOf("call", 7)));
  EXPECT_EQ(Arrive(7), Route::kNegotiated);
}

// What it needs cannot be made on some rank, as all find out between vote and decision.
TEST_F(PlanTableTest, ACallThatWasVotedForInVainIsForgotten) {
  EXPECT_TRUE(plans_.Learn(CallOf("call-a", 7)));
  const auto rows = ByRank({plans_.VoteRow(true, false)});
  plans_.Disable("no memory");
  EXPECT_TRUE(plans_.Apply(rows).rejections.empty());
  EXPECT_TRUE(plans_.Reports().empty());
  EXPECT_EQ(Arrive(7), Route::kNegotiated);
}

// Buckets of calls are never cut anew.
TEST_F(PlanTableTest, ACallIsNotRebuilt) {
  ASSERT_TRUE(horovod_opt::Activate(plans_, CallOf("call", 7)));
  times_ = true;
  for (int iteration = 0; iteration < 2 * kTimedIterations; ++iteration) {
    EXPECT_EQ(Arrive(7), Route::kPlanned);
    plans_.MarkReduced(plans_.Take(announced_.back()));
  }
  EXPECT_FALSE(plans_.WantsVote());
  HoldVote();
  EXPECT_EQ(Arrive(7), Route::kPlanned);
  EXPECT_EQ(announced_.back(), 0);
}

}  // namespace recurring_calls_test
}  // namespace horovod_opt
