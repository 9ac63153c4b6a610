#include "horovod_opt/csrc/core/plan/plan_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace {

constexpr int kCapacity = 5;
constexpr int kWarmUpIterations = 2;

// One rank, alone or with others whose rows the test writes.
class PlanTableTest : public testing::Test {
 protected:
  Route Arrive(std::int64_t key, std::int64_t bytes = 4, const std::string& problem = "") {
    ArrivalPtr arrival = std::make_unique<Arrival>();
    return path_.Arrive(key, bytes, {}, problem, arrival);
  }

  PlanTable::Outcome HoldVote(const std::vector<std::string>& others = {}) {
    std::vector<std::string> rows{path_.VoteRow(times_, PlanTable::Clock::now() + later_)};
    rows.insert(rows.end(), others.begin(), others.end());
    return path_.Apply(rows);
  }

  // What another rank says of plan p.
  static Vote Says(PlanState state, std::uint64_t begun, const std::string& reason = "") {
    Vote vote;
    vote.hash = "p";
    vote.state = state;
    vote.begun = begun;
    vote.reason = reason;
    return vote;
  }

  // One iteration in the planned path.
  void Planned(const Plan& plan) {
    for (const Slot& slot : plan.slots) {
      tickets_.clear();
      EXPECT_EQ(Arrive(slot.key), Route::kPlanned);
      for (int bucket_id : tickets_) path_.Finished(path_.Take(bucket_id));
    }
  }

  // Adds the plan and makes it active.
  void Activate(const Plan& plan) {
    path_.Add(plan);
    for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
      for (const Slot& slot : plan.slots) EXPECT_EQ(Arrive(slot.key), Route::kNegotiated);
    }
    HoldVote();
  }

  PlanTable::Report ReportOf(const std::string& hash) const {
    for (auto& report : path_.Reports()) {
      if (report.hash == hash) return report;
    }
    ADD_FAILURE() << "no plan " << hash;
    return {};
  }

  std::vector<int> tickets_;  // announced
  int meetings_ = 0;
  std::chrono::seconds later_{0};
  bool times_ = false;
  PlanTable path_{kCapacity, [this](int bucket_id) { tickets_.push_back(bucket_id); },
                  [this] { ++meetings_; }};
};

TEST_F(PlanTableTest, WhatIsInNoPlanIsNegotiated) {
  Activate(MakePlan("p", 1, {{0}}, 7));
  for (std::int64_t key : {-1, 0, 1, 6, 8, 1 << 30}) EXPECT_EQ(Arrive(key), Route::kNegotiated);
  EXPECT_EQ(Arrive(7), Route::kPlanned);
}

TEST_F(PlanTableTest, AsksForTheVoteWhenThereIsNews) {
  EXPECT_FALSE(path_.WantsVote());
  path_.Add(MakePlan("p", 1, {{0}}));
  EXPECT_FALSE(path_.WantsVote());
  for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) Arrive(1);
  EXPECT_TRUE(path_.WantsVote());
  EXPECT_EQ(meetings_, 1);
  HoldVote();
  EXPECT_FALSE(path_.WantsVote());
  Arrive(1);
  EXPECT_FALSE(path_.WantsVote());
  path_.Join();
  EXPECT_TRUE(path_.WantsVote());
  EXPECT_EQ(meetings_, 2);
}

TEST_F(PlanTableTest, EachPlanHasTicketsOfItsOwn) {
  Activate(MakePlan("q", 2, {{0}, {1}}, 1));
  Activate(MakePlan("p", 3, {{0, 1}, {2}}, 11));
  EXPECT_EQ(Arrive(13), Route::kPlanned);
  EXPECT_EQ(Arrive(2), Route::kPlanned);
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(Arrive(11), Route::kPlanned);
  EXPECT_EQ(tickets_, (std::vector<int>{3, 1, 0}));
  EXPECT_EQ(path_.Take(3).plan->hash, "p");
  EXPECT_EQ(path_.Take(1).plan->hash, "q");
}

TEST_F(PlanTableTest, FinishedSaysWhenTheIterationIsOver) {
  Activate(MakePlan("p", 2, {{0}, {1}}));
  for (int iteration = 1; iteration <= 2; ++iteration) {
    Arrive(2);
    EXPECT_FALSE(path_.Finished(path_.Take(1)));
    Arrive(1);
    EXPECT_TRUE(path_.Finished(path_.Take(0)));
    EXPECT_EQ(ReportOf("p").iterations, static_cast<std::uint64_t>(iteration));
  }
}

TEST_F(PlanTableTest, AKnownPlanOnlyGetsMoreKeys) {
  Activate(MakePlan("p", 2, {{0, 1}}, 1));
  path_.Add(MakePlan("p", 2, {{0, 1}}, 11));  // traced again
  EXPECT_EQ(path_.Reports().size(), 1u);
  EXPECT_EQ(Arrive(12), Route::kPlanned);
  EXPECT_EQ(Arrive(2), Route::kOverlaps);
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(tickets_, std::vector<int>{0});
}

TEST_F(PlanTableTest, AKeyOfAnotherPlanEndsBoth) {
  Activate(MakePlan("p", 2, {{0, 1}}, 1));
  EXPECT_FALSE(path_.WantsVote());
  path_.Add(MakePlan("q", 2, {{0, 1}}, 2));
  EXPECT_TRUE(path_.WantsVote());
  EXPECT_EQ(Arrive(1), Route::kDeferred);
  const auto outcome = HoldVote();
  EXPECT_EQ(outcome.rejected,
            (std::vector<std::string>{"plan p (p): rank 0: 'a' also belongs to plan q",
                                      "plan q (q): rank 0: 'a' also belongs to plan p"}));
  EXPECT_EQ(outcome.negotiated.size(), 1u);
  EXPECT_EQ(ReportOf("p").state, "negotiated");
  EXPECT_EQ(ReportOf("q").state, "negotiated");
  EXPECT_TRUE(HoldVote().rejected.empty()) << "said once";
}

TEST_F(PlanTableTest, RejectionFromOutside) {
  Activate(MakePlan("p", 1, {{0}}));
  path_.Reject("other", "unknown here");
  EXPECT_FALSE(path_.WantsVote());
  path_.Reject("p", "no more");
  EXPECT_TRUE(path_.WantsVote());
  EXPECT_EQ(HoldVote().rejected, std::vector<std::string>{"plan p (p): rank 0: no more"});
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
}

TEST_F(PlanTableTest, RejectionOfAPlanThatIsUnknownHereIsSaidToo) {
  const std::string other = ToRow({Says(PlanState::kFailed, 0, "no")});
  EXPECT_EQ(HoldVote({other}).rejected, std::vector<std::string>{"plan p: rank 1: no"});
}

TEST_F(PlanTableTest, WhereNothingCanBePlanned) {
  path_.Disable("no memory");
  path_.Add(MakePlan("p", 1, {{0}}));
  for (int iteration = 0; iteration < 2 * kWarmUpIterations; ++iteration)
    EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_EQ(ReportOf("p").state, "negotiated");
  EXPECT_EQ(ReportOf("p").reason, "no memory");
  HoldVote({ToRow({Says(PlanState::kReady, 2)})});
  EXPECT_EQ(ReportOf("p").reason, "rank 0: no memory");
}

TEST_F(PlanTableTest, PlansInUseKeepTheirBucketIds) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("p").state, "active") << "used a moment ago";
  EXPECT_EQ(ReportOf("q").state, "ready");
  EXPECT_EQ(ReportOf("q").reason, "plans in use have 3 of 5 buckets, and this one needs 3");
  EXPECT_EQ(Arrive(11), Route::kNegotiated);
  Activate(MakePlan("r", 2, {{0}, {1}}, 21));
  EXPECT_EQ(ReportOf("r").state, "active");
}

TEST_F(PlanTableTest, WhatWasNotUsedForTheLongestTimeGivesItsTicketsToOthers) {
  const Plan p = MakePlan("p", 2, {{0}, {1}}, 1), q = MakePlan("q", 2, {{0}, {1}}, 11);
  const Plan r = MakePlan("r", 2, {{0}, {1}}, 21);
  Activate(q);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  Activate(p);
  Planned(p);
  later_ = std::chrono::seconds(5);
  Activate(r);
  EXPECT_EQ(ReportOf("q").state, "ready");
  EXPECT_EQ(ReportOf("q").reason,
            "its place was given to other plans; active again after its next iteration");
  EXPECT_EQ(ReportOf("p").state, "active");
  Planned(p);
  Planned(r);
  EXPECT_FALSE(path_.WantsVote());
  EXPECT_EQ(Arrive(11), Route::kNegotiated);
  EXPECT_TRUE(path_.WantsVote());
  HoldVote();
  EXPECT_EQ(ReportOf("q").state, "active");
  EXPECT_EQ(Arrive(12), Route::kNegotiated) << "of the iteration that was begun before";
  Planned(q);
}

// Invariant 5 of vote.h.
TEST_F(PlanTableTest, WhatIsUnderWayDoesNotGiveItsBucketIds) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Arrive(1);
  later_ = std::chrono::seconds(5);
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("p").state, "active");
  EXPECT_EQ(ReportOf("q").state, "ready");
}

TEST_F(PlanTableTest, AnEndedPlanGivesItsTicketsOnceItsBucketsAreReduced) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Arrive(1);  // its bucket ID is 0
  path_.Reject("p", "no more");
  HoldVote();
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("q").state, "ready") << "one of p's is complete and not reduced";
  path_.Finished(path_.Take(0));
  HoldVote();
  EXPECT_EQ(ReportOf("q").state, "active");
}

// Invariant 6 of plan_run.h.
TEST_F(PlanTableTest, WhatIsOwedIsAnnouncedInTheNextVote) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Arrive(1);
  tickets_.clear();
  Vote other = Says(PlanState::kEnding, kWarmUpIterations + 1, "no more");
  other.completed = {0, 1, 0};
  EXPECT_EQ(HoldVote({ToRow({other})}).negotiated.size(), 1u);
  EXPECT_TRUE(path_.WantsVote());
  EXPECT_TRUE(tickets_.empty()) << "others may not know yet that there is nothing in them";
  HoldVote();
  EXPECT_EQ(tickets_, std::vector<int>{1});
  EXPECT_TRUE(path_.Take(0).slots.empty());
  EXPECT_TRUE(path_.Take(1).slots.empty());
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("q").state, "active") << "all bucket IDs are free";
}

TEST_F(PlanTableTest, AGraphThatIsGoneTakesItsKeysAlong) {
  Plan first = MakePlan("p", 1, {{0}}, 1), second = MakePlan("p", 1, {{0}}, 11);
  Activate(first);
  path_.Add(second);
  path_.Remove(first);
  HoldVote();
  EXPECT_EQ(Arrive(11), Route::kPlanned);
  path_.Finished(path_.Take(0));
  path_.Remove(second);
  HoldVote({ToRow({Says(PlanState::kActive, kWarmUpIterations + 1)})});
  EXPECT_EQ(path_.Reports().size(), 1u) << "another rank has it still";
  HoldVote();
  EXPECT_TRUE(path_.Reports().empty());
  path_.Remove(second);
  Activate(MakePlan("p", 1, {{0}}, 21));
  EXPECT_EQ(ReportOf("p").state, "active");
}

TEST_F(PlanTableTest, AsksForTheVoteWhenManyGraphsAreGone) {
  for (int i = 0; i <= 64; ++i) {
    const Plan plan = MakePlan("p" + std::to_string(i), 1, {{0}}, 1 + i);
    path_.Add(plan);
    EXPECT_FALSE(path_.WantsVote());
    path_.Remove(plan);
  }
  EXPECT_TRUE(path_.WantsVote());
  HoldVote();
  EXPECT_TRUE(path_.Reports().empty());
}

TEST_F(PlanTableTest, AGraphThatIsGoneMayRunOnceMore) {
  Activate(MakePlan("p", 1, {{0}}, 1));
  path_.Add(MakePlan("p", 1, {{0}}, 11));
  path_.Remove(MakePlan("p", 1, {{0}}, 1));
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  path_.Finished(path_.Take(0));
  for (int i = 0; i < 64; ++i) {
    path_.Add(MakePlan("p", 1, {{0}}, 100 + i));
    path_.Remove(MakePlan("p", 1, {{0}}, 100 + i));
  }
  EXPECT_EQ(Arrive(1), Route::kNegotiated) << "but not long after";
}

// As with a model whose sequences have another length in each step: every plan becomes active, and
// what is kept does not grow.
TEST_F(PlanTableTest, AHundredThousandRetraces) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr std::int64_t kRetraces = 2000;
#else
  constexpr std::int64_t kRetraces = 100000;
#endif
  for (std::int64_t i = 0; i < kRetraces; ++i) {
    const Plan plan = MakePlan("p" + std::to_string(i), 2, {{0}, {1}}, 1 + 2 * i);
    Activate(plan);
    Planned(plan);
    path_.Remove(plan);
    ASSERT_LE(path_.Reports().size(), 2u);
  }
}

TEST_F(PlanTableTest, NoTicketsForNewBucketsKeepsTheOldOnes) {
  times_ = true;
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}));
  for (int iteration = 0; iteration < 5; ++iteration) {
    for (int slot = 0; slot < 3; ++slot) {
      Arrive(1 + slot);
      path_.Finished(path_.Take(slot));
    }
  }
  EXPECT_TRUE(path_.WantsVote());
  const std::string slow = ToRow({Says(PlanState::kActive, 7)});
  const auto timed = [](std::vector<std::int64_t> times) {
    Vote vote = Says(PlanState::kActive, 7);
    vote.times = std::move(times);
    return ToRow({vote});
  };
  // All apart: 3 new buckets where 2 bucket IDs are left.
  path_.VoteRow(true);
  path_.Apply({timed({0, 5000, 10000}), slow});
  EXPECT_EQ(ReportOf("p").buckets, (Buckets{{0}, {1}, {2}}));
  EXPECT_EQ(ReportOf("p").state, "active");
  // Fused: the threshold allows two of them.
  path_.VoteRow(true);
  path_.Apply({timed({20, 10, 0}), slow});
  EXPECT_EQ(ReportOf("p").buckets, (Buckets{{2, 1}, {0}}));
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(tickets_.back(), 4);
}

TEST_F(PlanTableTest, ADifferentTensorIsNegotiatedOnEveryRankAndNamed) {
  Activate(MakePlan("p", 2, {{0}, {1}}));
  EXPECT_EQ(Arrive(1, 8), Route::kDeferred);
  EXPECT_TRUE(path_.WantsVote());
  const auto outcome = HoldVote();
  EXPECT_EQ(outcome.negotiated.size(), 1u);
  EXPECT_EQ(outcome.rejected,
            std::vector<std::string>{"plan p (p): rank 0: 'a': it has 8 bytes, planned are 4"});
  Activate(MakePlan("q", 2, {{0}, {1}}, 11));
  EXPECT_EQ(Arrive(12, 4, "it is reduced by Adasum"), Route::kDeferred);
  EXPECT_EQ(HoldVote().rejected,
            std::vector<std::string>{"plan q (q): rank 0: 'b': it is reduced by Adasum"});
}

TEST_F(PlanTableTest, WhatOthersWaitForIsTakenBackWhenTheirTensorDiffers) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  Arrive(3);
  Vote other = Says(PlanState::kEnding, kWarmUpIterations, "'b': it is green");
  other.completed = {0, 0};
  EXPECT_EQ(HoldVote({ToRow({other})}).negotiated.size(), 2u);
  EXPECT_EQ(Arrive(2), Route::kNegotiated);
}

TEST_F(PlanTableTest, DifferentInTheFirstIterationFailsThePlan) {
  path_.Add(MakePlan("p", 2, {{0}, {1}}));
  EXPECT_EQ(Arrive(2, 8), Route::kNegotiated);
  EXPECT_EQ(HoldVote().rejected,
            std::vector<std::string>{"plan p (p): rank 0: 'b': it has 8 bytes, planned are 4"});
}

TEST_F(PlanTableTest, ZerosForWhatOthersHaveBegunWhenTheRankJoined) {
  Activate(MakePlan("p", 1, {{0}}));
  path_.Join();
  // Rank 1 has begun two iterations more than this one.
  HoldVote({ToRow({Says(PlanState::kActive, kWarmUpIterations + 2)})});
  EXPECT_EQ(tickets_, std::vector<int>{0});
  EXPECT_EQ(path_.Take(0).arrivals[0], nullptr);
  EXPECT_EQ(tickets_, (std::vector<int>{0, 0}));
  EXPECT_EQ(path_.Take(0).iteration, kWarmUpIterations + 2u);
  EXPECT_EQ(tickets_.size(), 2u);
}

TEST_F(PlanTableTest, RestartOfAllPlansWhichKeepTheirBucketIds) {
  Activate(MakePlan("p", 1, {{0}}, 1));
  path_.Add(MakePlan("q", 1, {{0}}, 11));
  for (int epoch = 0; epoch < kCapacity; ++epoch) {
    path_.Join();
    HoldVote();
    EXPECT_EQ(ReportOf("p").state, "warming up");
    path_.Restart();
    for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
      for (std::int64_t key : {1, 11}) EXPECT_EQ(Arrive(key), Route::kNegotiated);
    }
    HoldVote();
    EXPECT_EQ(ReportOf("p").state, "active");
    EXPECT_EQ(ReportOf("q").state, "active");
  }
}

TEST_F(PlanTableTest, CloseReturnsWhatIsLeftAndNegotiatesTheRest) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  Arrive(3);
  path_.VoteRow(false);
  Arrive(2);
  EXPECT_EQ(path_.Close().size(), 3u);
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_TRUE(path_.Close().empty());
}

TEST_F(PlanTableTest, AfterRefuseNoBucketBecomesComplete) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  Arrive(3);
  path_.Finish();
  EXPECT_EQ(Arrive(2), Route::kNegotiated);
  EXPECT_EQ(tickets_, std::vector<int>{1});
  const Work work = path_.Take(1);
  EXPECT_NE(work.arrivals.at(0), nullptr);
  EXPECT_FALSE(path_.Finished(work));
  EXPECT_EQ(path_.Close().size(), 1u) << "what is in the other bucket";
}

TEST_F(PlanTableTest, AfterRefuseAJoinedRankSuppliesNoMoreZeros) {
  Activate(MakePlan("p", 1, {{0}}));
  path_.Join();
  HoldVote({ToRow({Says(PlanState::kActive, kWarmUpIterations + 2)})});
  EXPECT_EQ(tickets_, std::vector<int>{0});
  path_.Finish();
  EXPECT_EQ(path_.Take(0).arrivals.at(0), nullptr);
  EXPECT_EQ(tickets_, std::vector<int>{0});
}

TEST_F(PlanTableTest, ReportsTellWhatHasBecomeOfEachPlan) {
  path_.Add(MakePlan("p", 2, {{0, 1}}));
  EXPECT_EQ(ReportOf("p").state, "warming up");
  for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
    for (std::int64_t key : {1, 2}) Arrive(key);
  }
  EXPECT_EQ(ReportOf("p").state, "ready");
  HoldVote({""});
  EXPECT_EQ(ReportOf("p").reason, "waits for its first iterations on rank 1");
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
  EXPECT_TRUE(path_.LateSince(PlanTable::Clock::time_point::min()).empty());
  const auto late = path_.LateSince(PlanTable::Clock::now());
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].plan, "p");
  EXPECT_EQ(late[0].iteration, kWarmUpIterations + 1u);
  EXPECT_EQ(late[0].here, std::vector<std::string>{"b"});
  EXPECT_EQ(late[0].missing, std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace horovod_opt
