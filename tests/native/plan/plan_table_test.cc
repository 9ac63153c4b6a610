#include "horovod_opt/csrc/core/plan/plan_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"
#include "tests/native/plan/plan_table_case.h"

namespace horovod_opt {
namespace plan_table_test {

Plan CallPlanOf(std::int64_t key) {
  Plan plan = MakePlan("call-" + std::to_string(key), 1, {{0}}, key);
  plan.is_call = true;
  return plan;
}

TEST_F(PlanTableTest, WhatIsInNoPlanIsNegotiated) {
  Activate(MakePlan("p", 1, {{0}}, 7));
  for (std::int64_t key : {-1, 0, 1, 6, 8, 1 << 30}) EXPECT_EQ(Arrive(key), Route::kNegotiated);
  EXPECT_EQ(Arrive(7), Route::kPlanned);
}

TEST_F(PlanTableTest, AsksForTheVoteWhenThereIsNews) {
  EXPECT_FALSE(plans_.WantsVote());
  plans_.Add(MakePlan("p", 1, {{0}}));
  EXPECT_FALSE(plans_.WantsVote());
  for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) Arrive(1);
  EXPECT_TRUE(plans_.WantsVote());
  EXPECT_EQ(meetings_, 1);
  HoldVote();
  EXPECT_FALSE(plans_.WantsVote());
  Arrive(1);
  EXPECT_FALSE(plans_.WantsVote());
  plans_.Join();
  EXPECT_TRUE(plans_.WantsVote());
  EXPECT_EQ(meetings_, 2);
}

TEST_F(PlanTableTest, FinishedSaysWhenTheIterationIsOver) {
  Activate(MakePlan("p", 2, {{0}, {1}}));
  for (int iteration = 1; iteration <= 2; ++iteration) {
    Arrive(2);
    EXPECT_FALSE(plans_.MarkReduced(plans_.Take(1)));
    Arrive(1);
    EXPECT_TRUE(plans_.MarkReduced(plans_.Take(0)));
    EXPECT_EQ(ReportOf("p").iterations, static_cast<std::uint64_t>(iteration));
  }
}

TEST_F(PlanTableTest, RejectionFromOutside) {
  Activate(MakePlan("p", 1, {{0}}));
  plans_.Reject("other", "unknown here");
  EXPECT_FALSE(plans_.WantsVote());
  plans_.Reject("p", "no more");
  EXPECT_TRUE(plans_.WantsVote());
  EXPECT_EQ(HoldVote().rejections, std::vector<std::string>{"plan p (p): rank 0: no more"});
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
}

TEST_F(PlanTableTest, WithoutATensorThatIsLeftOut) {
  times_ = true;
  plans_.Add(MakePlan("p", 3, {{0, 1}, {2}}));
  plans_.LeaveOut(99, "unknown");
  for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
    plans_.LeaveOut(2, "it is sparse");
    for (int key : {1, 3}) EXPECT_EQ(Arrive(key), Route::kNegotiated);
  }
  EXPECT_TRUE(plans_.WantsVote());
  EXPECT_TRUE(HoldVote().rejections.empty());
  EXPECT_EQ(ReportOf("p").state, "active");
  EXPECT_EQ(ReportOf("p").reason, "without 'b' (it is sparse)");
  EXPECT_EQ(ReportOf("p").buckets, (Buckets{{0}, {2}}));
  for (int iteration = 0; iteration < kTimedIterations; ++iteration) {
    for (int key : {1, 3}) {
      announced_.clear();
      EXPECT_EQ(Arrive(key), Route::kPlanned);
      ASSERT_EQ(announced_.size(), 1u);
      plans_.MarkReduced(plans_.Take(announced_[0]));
    }
    EXPECT_EQ(Arrive(2), Route::kNegotiated) << "now and then it may come";
  }
  EXPECT_TRUE(plans_.WantsVote());
  HoldVote();
  std::vector<int> slots;  // in one bucket, or in two where much time went by between them
  for (const auto& bucket : ReportOf("p").buckets) {
    slots.insert(slots.end(), bucket.begin(), bucket.end());
  }
  EXPECT_EQ(slots, (std::vector<int>{0, 2})) << "rebuilt, without it too";
}

TEST_F(PlanTableTest, WithoutWhatOnlyAnotherRankLeavesOut) {
  plans_.Add(MakePlan("p", 2, {{0, 1}}));
  for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
    for (int key : {1, 2}) Arrive(key);
  }
  Vote peer = Says(PlanState::kReady, kWarmUpIterations);
  peer.left_out = {0};
  HoldVote({ToRow({peer})});
  EXPECT_EQ(ReportOf("p").reason, "without 'a'");
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_EQ(Arrive(2), Route::kPlanned);
  EXPECT_EQ(announced_, std::vector<int>{0});
}

// Its other tensors may never arrive.
TEST_F(PlanTableTest, AStepThatIsOverIsAbandoned) {
  Activate(MakePlan("p", 2, {{0, 1}}));
  ArrivalPtr arrival;
  const auto send = [&](std::int64_t key, std::int64_t step) {
    arrival = std::make_unique<Arrival>();
    arrival->step = step;
    return ArriveAt(plans_, key, arrival);
  };
  EXPECT_EQ(send(1, 7), Route::kPlanned);
  plans_.StepOver({99}, 7);
  plans_.StepOver({1, 2}, 6);
  EXPECT_FALSE(plans_.WantsVote());
  plans_.StepOver({99, 1, 2}, 7);
  EXPECT_TRUE(plans_.WantsVote());
  const auto outcome = HoldVote();
  ASSERT_EQ(outcome.to_negotiate.size(), 1u);
  EXPECT_NE(outcome.to_negotiate[0]->failure.find("rank 0 has left it without 'b'."),
            std::string::npos);
  EXPECT_EQ(outcome.failures, std::vector<std::string>{outcome.to_negotiate[0]->failure});
  EXPECT_TRUE(outcome.rejections.empty());
  EXPECT_EQ(send(2, 7), Route::kAbandoned);
  EXPECT_EQ(arrival->failure, outcome.to_negotiate[0]->failure);
  HoldVote();
  for (std::int64_t step = 8; step < 8 + kWarmUpIterations; ++step) {
    for (int key : {1, 2}) EXPECT_EQ(send(key, step), Route::kNegotiated);
  }
  HoldVote();
  EXPECT_EQ(send(1, 20), Route::kPlanned);
}

TEST_F(PlanTableTest, ARankHasLeftItsStepOnlyIfItWaitsForSomethingElse) {
  Activate(MakePlan("p", 2, {{0, 1}}));
  Activate(MakePlan("q", 2, {{0, 1}}, 11));
  const auto send = [&](std::int64_t key) {
    ArrivalPtr arrival = std::make_unique<Arrival>();
    arrival->step = 7;
    arrival->in_turn = true;
    EXPECT_EQ(ArriveAt(plans_, key, arrival), Route::kPlanned);
  };
  const auto p_is_left = [&](bool waits_elsewhere) {
    const auto later = PlanTable::Clock::now() + std::chrono::seconds(10);
    const std::string row =
        plans_.VoteRow(true, false, later, {std::chrono::seconds(5), waits_elsewhere});
    Vote peer = Says(PlanState::kActive, 0);
    plans_.Apply(ByRank({row, ToRow({peer})}));
    return FromRow(row).at(0).left;
  };
  send(1);
  EXPECT_FALSE(p_is_left(false)) << "it may be slow";
  EXPECT_TRUE(p_is_left(true));
  send(11);
  EXPECT_TRUE(p_is_left(false)) << "it waits in q";
}

// A script that leaves a step may send a name again while a vote hands back its last tensor.
TEST_F(PlanTableTest, WhatIsHandedBackIsNotOvertaken) {
  for (const bool in_turn : {true, false}) {
    PlanTable plans(kCapacity, [](const Work&) {}, [] {});
    plans.Add(MakePlan("p", 2, {{0, 1}}));
    const auto send = [&](std::int64_t key, std::int64_t step) {
      ArrivalPtr arrival = std::make_unique<Arrival>();
      arrival->step = step;
      arrival->in_turn = in_turn;
      return ArriveAt(plans, key, arrival);
    };
    const std::string row = plans.VoteRow(true, false);
    EXPECT_EQ(send(1, 7), Route::kDeferred);
    std::vector<std::int64_t> steps;
    const auto hand_back = [&](const ArrivalPtr& arrival) {
      steps.push_back(arrival->step);
      if (steps.size() > 1) return;
      for (int key : {1, 2}) EXPECT_EQ(send(key, 8), Route::kDeferred);
    };
    plans.Apply(plans.DecideBy(ByRank({row})), hand_back);
    EXPECT_EQ(steps, (std::vector<std::int64_t>{7, 8, 8}));
    EXPECT_EQ(send(1, 9), Route::kNegotiated);
  }
}

TEST_F(PlanTableTest, RejectionOfAPlanThatIsUnknownHereIsSaidToo) {
  const std::string peer = ToRow({Says(PlanState::kFailed, 0, "no")});
  EXPECT_EQ(HoldVote({peer}).rejections, std::vector<std::string>{"plan p: rank 1: no"});
}

TEST_F(PlanTableTest, WhereNothingCanBePlanned) {
  plans_.Disable("no memory");
  plans_.Add(MakePlan("p", 1, {{0}}));
  for (int iteration = 0; iteration < 2 * kWarmUpIterations; ++iteration)
    EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_EQ(ReportOf("p").state, "negotiated");
  EXPECT_EQ(ReportOf("p").reason, "no memory");
  HoldVote({ToRow({Says(PlanState::kReady, 2)})});
  EXPECT_EQ(ReportOf("p").reason, "rank 0: no memory");
}

// What a plan needs cannot be made on some rank, as all find out before they carry out their vote.
TEST_F(PlanTableTest, WhereNothingCanBePlannedAfterAllAPlanThatWasVotedForEnds) {
  plans_.Add(MakePlan("p", 2, {{0, 1}}));
  for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
    const auto rows = ByRank({plans_.VoteRow(true, false)});
    EXPECT_FALSE(PlanTable::AnyBecomesActive(plans_.DecideBy(rows)));
    EXPECT_TRUE(plans_.Apply(rows).to_negotiate.empty());
    for (std::int64_t key : {1, 2}) EXPECT_EQ(Arrive(key), Route::kNegotiated);
  }
  const auto rows = ByRank({plans_.VoteRow(true, false)});
  EXPECT_TRUE(PlanTable::AnyBecomesActive(plans_.DecideBy(rows)));
  plans_.Disable("no memory");
  EXPECT_EQ(plans_.Apply(rows).rejections, std::vector<std::string>{"plan p (p): no memory"});
  for (std::int64_t key : {1, 2}) EXPECT_EQ(Arrive(key), Route::kNegotiated);
  EXPECT_EQ(ReportOf("p").state, "negotiated");
  EXPECT_EQ(ReportOf("p").reason, "no memory");
  EXPECT_TRUE(announced_.empty());
  EXPECT_FALSE(plans_.Learn(CallPlanOf(9)));
}

// With as many buckets as there may be, in a set as among all ranks: none has the number that
// stands for a round of negotiation in the queue.
TEST(PlanTableCapacity, EveryBucketHasAnIdOfItsOwnAndNoOtherEntryIsTakenForOne) {
  EXPECT_THROW(
      PlanTable(ReadyQueue::kBuckets + 1, [](const auto&) {}, [] {}), std::invalid_argument);
  std::vector<int> announced;
  PlanTable plans(
      ReadyQueue::kBuckets, [&](const auto& work) { announced.push_back(work.bucket->id); }, [] {});
  std::set<int> bucket_ids;
  constexpr std::int64_t kOfAVote = 100;  // a vote for each plan would be quadratic
  for (std::int64_t first = 1; first <= ReadyQueue::kBuckets; first += kOfAVote) {
    const std::int64_t end = std::min<std::int64_t>(first + kOfAVote, ReadyQueue::kBuckets + 1);
    for (std::int64_t key = first; key < end; ++key) ASSERT_TRUE(plans.Learn(CallPlanOf(key)));
    plans.Apply(ByRank({plans.VoteRow(true, false)}));
    for (std::int64_t key = first; key < end; ++key) {
      ArrivalPtr arrival = std::make_unique<Arrival>();
      ASSERT_EQ(ArriveAt(plans, key, arrival), Route::kPlanned);
      bucket_ids.insert(announced.back());
    }
  }
  EXPECT_EQ(bucket_ids.size(), static_cast<std::size_t>(ReadyQueue::kBuckets));
  EXPECT_GE(*bucket_ids.begin(), 0);
  EXPECT_LT(*bucket_ids.rbegin(), ReadyQueue::kRoundId);
  EXPECT_TRUE(Activate(plans, CallPlanOf(ReadyQueue::kBuckets + 1)));
  EXPECT_EQ(ArriveAt(plans, ReadyQueue::kBuckets + 1), Route::kNegotiated) << "no room is left";
  for (int bucket_id : announced) plans.MarkReduced(plans.Take(bucket_id));
}

// Invariant 6 of plan_run.h.
TEST_F(PlanTableTest, WhatIsOwedIsAnnouncedInTheNextVote) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Arrive(1);
  announced_.clear();
  Vote peer = Says(PlanState::kEnding, kWarmUpIterations + 1, "no more");
  peer.completions = {0, 1, 0};
  EXPECT_EQ(HoldVote({ToRow({peer})}).to_negotiate.size(), 1u);
  EXPECT_TRUE(plans_.WantsVote());
  EXPECT_TRUE(announced_.empty()) << "others may not know yet that there is nothing in them";
  HoldVote();
  EXPECT_EQ(announced_, std::vector<int>{1});
  EXPECT_TRUE(plans_.Take(0).IsEmpty());
  EXPECT_TRUE(plans_.Take(1).IsEmpty());
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("q").state, "active") << "all bucket IDs are free";
}

TEST_F(PlanTableTest, ADifferentTensorIsNegotiatedOnEveryRankAndNamed) {
  Activate(MakePlan("p", 2, {{0}, {1}}));
  EXPECT_EQ(Arrive(1, 8), Route::kDeferred);
  EXPECT_TRUE(plans_.WantsVote());
  const auto outcome = HoldVote();
  EXPECT_EQ(outcome.to_negotiate.size(), 1u);
  EXPECT_EQ(outcome.rejections,
            std::vector<std::string>{"plan p (p): rank 0: 'a': it has 8 bytes, not the planned 4"});
  Activate(MakePlan("q", 2, {{0}, {1}}, 11));
  EXPECT_EQ(Arrive(12, 4, "it is reduced by Adasum"), Route::kDeferred);
  EXPECT_EQ(HoldVote().rejections,
            std::vector<std::string>{"plan q (q): rank 0: 'b': it is reduced by Adasum"});
}

TEST_F(PlanTableTest, WhatOthersWaitForIsTakenBackWhenTheirTensorDiffers) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  Arrive(3);
  Vote peer = Says(PlanState::kEnding, kWarmUpIterations, "'b': it is green");
  peer.completions = {0, 0};
  EXPECT_EQ(HoldVote({ToRow({peer})}).to_negotiate.size(), 2u);
  EXPECT_EQ(Arrive(2), Route::kNegotiated);
}

TEST_F(PlanTableTest, DifferentInTheFirstIterationFailsThePlan) {
  plans_.Add(MakePlan("p", 2, {{0}, {1}}));
  EXPECT_EQ(Arrive(2, 8), Route::kNegotiated);
  EXPECT_EQ(HoldVote().rejections,
            std::vector<std::string>{"plan p (p): rank 0: 'b': it has 8 bytes, not the planned 4"});
}

TEST_F(PlanTableTest, ZerosForWhatOthersHaveBegunWhenTheRankJoined) {
  Activate(MakePlan("p", 1, {{0}}));
  plans_.Join();
  // Rank 1 has begun two iterations more than this one.
  HoldVote({ToRow({Says(PlanState::kActive, kWarmUpIterations + 2)})});
  EXPECT_EQ(announced_, std::vector<int>{0});
  EXPECT_EQ(plans_.Take(0).arrivals[0], nullptr);
  EXPECT_EQ(announced_, (std::vector<int>{0, 0}));
  EXPECT_EQ(plans_.Take(0).iteration, kWarmUpIterations + 2u);
  EXPECT_EQ(announced_.size(), 2u);
}

TEST_F(PlanTableTest, CloseReturnsWhatIsLeftAndNegotiatesTheRest) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  Arrive(3);
  plans_.VoteRow(true, false);
  Arrive(2);
  EXPECT_EQ(plans_.Close().size(), 3u);
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_TRUE(plans_.Close().empty());
}

TEST_F(PlanTableTest, AfterFinishNoBucketBecomesComplete) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  Arrive(3);
  plans_.Finish();
  EXPECT_EQ(Arrive(2), Route::kNegotiated);
  EXPECT_EQ(announced_, std::vector<int>{1});
  const Work work = plans_.Take(1);
  EXPECT_NE(work.arrivals.at(0), nullptr);
  EXPECT_FALSE(plans_.MarkReduced(work));
  EXPECT_EQ(plans_.Close().size(), 1u) << "what is in the other bucket";
}

TEST_F(PlanTableTest, AfterFinishAJoinedRankSuppliesNoMoreZeros) {
  Activate(MakePlan("p", 1, {{0}}));
  plans_.Join();
  HoldVote({ToRow({Says(PlanState::kActive, kWarmUpIterations + 2)})});
  EXPECT_EQ(announced_, std::vector<int>{0});
  plans_.Finish();
  EXPECT_EQ(plans_.Take(0).arrivals.at(0), nullptr);
  EXPECT_EQ(announced_, std::vector<int>{0});
}

TEST_F(PlanTableTest, ReportsTellWhatHasBecomeOfEachPlan) {
  plans_.Add(MakePlan("p", 2, {{0, 1}}));
  EXPECT_EQ(ReportOf("p").state, "warming up");
  for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
    for (std::int64_t key : {1, 2}) Arrive(key);
  }
  EXPECT_EQ(ReportOf("p").state, "ready");
  HoldVote({""});
  EXPECT_EQ(ReportOf("p").reason, "its warm-up is not over on rank 1");
  HoldVote();
  Arrive(2);
  Arrive(1);
  const auto report = ReportOf("p");
  EXPECT_EQ(report.state, "active");
  EXPECT_EQ(report.reason, "");
  EXPECT_EQ(report.name, "p");
  EXPECT_EQ(report.slots, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(report.buckets, (Buckets{{0, 1}}));
  EXPECT_EQ(report.times_last, (std::vector<std::uint64_t>{1, 0}));
}

TEST_F(PlanTableTest, LateTensorsAreNamed) {
  Activate(MakePlan("p", 2, {{0, 1}}));
  Arrive(2);
  EXPECT_TRUE(plans_.LateBuckets(PlanTable::Clock::time_point::min()).empty());
  const auto late = plans_.LateBuckets(PlanTable::Clock::now());
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].plan, "p");
  EXPECT_EQ(late[0].iteration, kWarmUpIterations + 1u);
  EXPECT_EQ(late[0].here, std::vector<std::string>{"b"});
  EXPECT_EQ(late[0].missing, std::vector<std::string>{"a"});
}

}  // namespace plan_table_test
}  // namespace horovod_opt
