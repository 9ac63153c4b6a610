#include "horovod_opt/csrc/core/plan/plan_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace {

constexpr int kCapacity = 5;
constexpr int kShadowPasses = 2;

// One rank, alone or with others whose rows the test writes.
class PlanLaneTest : public testing::Test {
 protected:
  Route Arrive(std::int64_t key, std::int64_t bytes = 4, const std::string& problem = "") {
    ArrivalPtr arrival = std::make_unique<Arrival>();
    return lane_.Arrive(key, bytes, {}, problem, arrival);
  }

  PlanLane::Outcome Council(const std::vector<std::string>& others = {}) {
    std::vector<std::string> rows{lane_.MeetingRow(times_, PlanLane::Clock::now() + later_)};
    rows.insert(rows.end(), others.begin(), others.end());
    return lane_.Apply(rows);
  }

  // What another rank says of plan p.
  static Statement Says(Stand stand, std::uint64_t begun, const std::string& reason = "") {
    Statement statement;
    statement.hash = "p";
    statement.stand = stand;
    statement.begun = begun;
    statement.reason = reason;
    return statement;
  }

  // One pass in the planned lane.
  void Planned(const Plan& plan) {
    for (const Slot& slot : plan.slots) {
      tickets_.clear();
      EXPECT_EQ(Arrive(slot.key), Route::kPlanned);
      for (int ticket : tickets_) lane_.Finished(lane_.Take(ticket));
    }
  }

  // Adds the plan and makes it active.
  void Activate(const Plan& plan) {
    lane_.Add(plan);
    for (int pass = 0; pass < kShadowPasses; ++pass) {
      for (const Slot& slot : plan.slots) EXPECT_EQ(Arrive(slot.key), Route::kNegotiated);
    }
    Council();
  }

  PlanLane::Report ReportOf(const std::string& hash) const {
    for (auto& report : lane_.Reports()) {
      if (report.hash == hash) return report;
    }
    ADD_FAILURE() << "no plan " << hash;
    return {};
  }

  std::vector<int> tickets_;  // announced
  int meetings_ = 0;
  std::chrono::seconds later_{0};
  bool times_ = false;
  PlanLane lane_{kCapacity, [this](int ticket) { tickets_.push_back(ticket); },
                 [this] { ++meetings_; }};
};

TEST_F(PlanLaneTest, WhatIsInNoPlanIsNegotiated) {
  Activate(MakePlan("p", 1, {{0}}, 7));
  for (std::int64_t key : {-1, 0, 1, 6, 8, 1 << 30}) EXPECT_EQ(Arrive(key), Route::kNegotiated);
  EXPECT_EQ(Arrive(7), Route::kPlanned);
}

TEST_F(PlanLaneTest, AsksForTheCouncilWhenThereIsNews) {
  EXPECT_FALSE(lane_.WantsCouncil());
  lane_.Add(MakePlan("p", 1, {{0}}));
  EXPECT_FALSE(lane_.WantsCouncil());
  for (int pass = 0; pass < kShadowPasses; ++pass) Arrive(1);
  EXPECT_TRUE(lane_.WantsCouncil());
  EXPECT_EQ(meetings_, 1);
  Council();
  EXPECT_FALSE(lane_.WantsCouncil());
  Arrive(1);
  EXPECT_FALSE(lane_.WantsCouncil());
  lane_.Join();
  EXPECT_TRUE(lane_.WantsCouncil());
  EXPECT_EQ(meetings_, 2);
}

TEST_F(PlanLaneTest, EachPlanHasTicketsOfItsOwn) {
  Activate(MakePlan("q", 2, {{0}, {1}}, 1));
  Activate(MakePlan("p", 3, {{0, 1}, {2}}, 11));
  EXPECT_EQ(Arrive(13), Route::kPlanned);
  EXPECT_EQ(Arrive(2), Route::kPlanned);
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(Arrive(11), Route::kPlanned);
  EXPECT_EQ(tickets_, (std::vector<int>{3, 1, 0}));
  EXPECT_EQ(lane_.Take(3).plan->hash, "p");
  EXPECT_EQ(lane_.Take(1).plan->hash, "q");
}

TEST_F(PlanLaneTest, FinishedSaysWhenThePassIsOver) {
  Activate(MakePlan("p", 2, {{0}, {1}}));
  for (int pass = 1; pass <= 2; ++pass) {
    Arrive(2);
    EXPECT_FALSE(lane_.Finished(lane_.Take(1)));
    Arrive(1);
    EXPECT_TRUE(lane_.Finished(lane_.Take(0)));
    EXPECT_EQ(ReportOf("p").passes, static_cast<std::uint64_t>(pass));
  }
}

TEST_F(PlanLaneTest, AKnownPlanOnlyGetsMoreKeys) {
  Activate(MakePlan("p", 2, {{0, 1}}, 1));
  lane_.Add(MakePlan("p", 2, {{0, 1}}, 11));  // traced again
  EXPECT_EQ(lane_.Reports().size(), 1u);
  EXPECT_EQ(Arrive(12), Route::kPlanned);
  EXPECT_EQ(Arrive(2), Route::kOverlaps);
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(tickets_, std::vector<int>{0});
}

TEST_F(PlanLaneTest, AKeyOfAnotherPlanEndsBoth) {
  Activate(MakePlan("p", 2, {{0, 1}}, 1));
  EXPECT_FALSE(lane_.WantsCouncil());
  lane_.Add(MakePlan("q", 2, {{0, 1}}, 2));
  EXPECT_TRUE(lane_.WantsCouncil());
  EXPECT_EQ(Arrive(1), Route::kHeld);
  const auto outcome = Council();
  EXPECT_EQ(outcome.rejected,
            (std::vector<std::string>{"plan p (p): rank 0: 'a' also belongs to plan q",
                                      "plan q (q): rank 0: 'a' also belongs to plan p"}));
  EXPECT_EQ(outcome.negotiated.size(), 1u);
  EXPECT_EQ(ReportOf("p").state, "negotiated");
  EXPECT_EQ(ReportOf("q").state, "negotiated");
  EXPECT_TRUE(Council().rejected.empty()) << "said once";
}

TEST_F(PlanLaneTest, RejectionFromOutside) {
  Activate(MakePlan("p", 1, {{0}}));
  lane_.Reject("other", "unknown here");
  EXPECT_FALSE(lane_.WantsCouncil());
  lane_.Reject("p", "no more");
  EXPECT_TRUE(lane_.WantsCouncil());
  EXPECT_EQ(Council().rejected, std::vector<std::string>{"plan p (p): rank 0: no more"});
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
}

TEST_F(PlanLaneTest, RejectionOfAPlanThatIsUnknownHereIsSaidToo) {
  const std::string other = ToRow({Says(Stand::kFailed, 0, "no")});
  EXPECT_EQ(Council({other}).rejected, std::vector<std::string>{"plan p: rank 1: no"});
}

TEST_F(PlanLaneTest, WhereNothingCanBePlanned) {
  lane_.Disable("no memory");
  lane_.Add(MakePlan("p", 1, {{0}}));
  for (int pass = 0; pass < 2 * kShadowPasses; ++pass) EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_EQ(ReportOf("p").state, "negotiated");
  EXPECT_EQ(ReportOf("p").reason, "no memory");
  Council({ToRow({Says(Stand::kReady, 2)})});
  EXPECT_EQ(ReportOf("p").reason, "rank 0: no memory");
}

TEST_F(PlanLaneTest, PlansInUseKeepTheirTickets) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("p").state, "active") << "used a moment ago";
  EXPECT_EQ(ReportOf("q").state, "ready");
  EXPECT_EQ(ReportOf("q").reason, "plans in use have 3 of 5 buckets, and this one needs 3");
  EXPECT_EQ(Arrive(11), Route::kNegotiated);
  Activate(MakePlan("r", 2, {{0}, {1}}, 21));
  EXPECT_EQ(ReportOf("r").state, "active");
}

TEST_F(PlanLaneTest, WhatWasNotUsedForTheLongestTimeGivesItsTicketsToOthers) {
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
            "its place was given to other plans; active again after its next pass");
  EXPECT_EQ(ReportOf("p").state, "active");
  Planned(p);
  Planned(r);
  EXPECT_FALSE(lane_.WantsCouncil());
  EXPECT_EQ(Arrive(11), Route::kNegotiated);
  EXPECT_TRUE(lane_.WantsCouncil());
  Council();
  EXPECT_EQ(ReportOf("q").state, "active");
  EXPECT_EQ(Arrive(12), Route::kNegotiated) << "of the pass that was begun before";
  Planned(q);
}

// Invariant 5 of council.h.
TEST_F(PlanLaneTest, WhatIsUnderWayDoesNotGiveItsTickets) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Arrive(1);
  later_ = std::chrono::seconds(5);
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("p").state, "active");
  EXPECT_EQ(ReportOf("q").state, "ready");
}

TEST_F(PlanLaneTest, AnEndedPlanGivesItsTicketsOnceItsBucketsAreReduced) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Arrive(1);  // its ticket is 0
  lane_.Reject("p", "no more");
  Council();
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("q").state, "ready") << "one of p's is complete and not reduced";
  lane_.Finished(lane_.Take(0));
  Council();
  EXPECT_EQ(ReportOf("q").state, "active");
}

// Invariant 6 of plan_run.h.
TEST_F(PlanLaneTest, WhatIsOwedIsAnnouncedInTheNextCouncil) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Arrive(1);
  tickets_.clear();
  Statement other = Says(Stand::kEnding, kShadowPasses + 1, "no more");
  other.completed = {0, 1, 0};
  EXPECT_EQ(Council({ToRow({other})}).negotiated.size(), 1u);
  EXPECT_TRUE(lane_.WantsCouncil());
  EXPECT_TRUE(tickets_.empty()) << "others may not know yet that there is nothing in them";
  Council();
  EXPECT_EQ(tickets_, std::vector<int>{1});
  EXPECT_TRUE(lane_.Take(0).slots.empty());
  EXPECT_TRUE(lane_.Take(1).slots.empty());
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("q").state, "active") << "all tickets are free";
}

TEST_F(PlanLaneTest, AGraphThatIsGoneTakesItsKeysAlong) {
  Plan first = MakePlan("p", 1, {{0}}, 1), second = MakePlan("p", 1, {{0}}, 11);
  Activate(first);
  lane_.Add(second);
  lane_.Remove(first);
  Council();
  EXPECT_EQ(Arrive(11), Route::kPlanned);
  lane_.Finished(lane_.Take(0));
  lane_.Remove(second);
  Council({ToRow({Says(Stand::kActive, kShadowPasses + 1)})});
  EXPECT_EQ(lane_.Reports().size(), 1u) << "another rank has it still";
  Council();
  EXPECT_TRUE(lane_.Reports().empty());
  lane_.Remove(second);
  Activate(MakePlan("p", 1, {{0}}, 21));
  EXPECT_EQ(ReportOf("p").state, "active");
}

TEST_F(PlanLaneTest, AsksForTheCouncilWhenManyGraphsAreGone) {
  for (int i = 0; i <= 64; ++i) {
    const Plan plan = MakePlan("p" + std::to_string(i), 1, {{0}}, 1 + i);
    lane_.Add(plan);
    EXPECT_FALSE(lane_.WantsCouncil());
    lane_.Remove(plan);
  }
  EXPECT_TRUE(lane_.WantsCouncil());
  Council();
  EXPECT_TRUE(lane_.Reports().empty());
}

TEST_F(PlanLaneTest, AGraphThatIsGoneMayRunOnceMore) {
  Activate(MakePlan("p", 1, {{0}}, 1));
  lane_.Add(MakePlan("p", 1, {{0}}, 11));
  lane_.Remove(MakePlan("p", 1, {{0}}, 1));
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  lane_.Finished(lane_.Take(0));
  for (int i = 0; i < 64; ++i) {
    lane_.Add(MakePlan("p", 1, {{0}}, 100 + i));
    lane_.Remove(MakePlan("p", 1, {{0}}, 100 + i));
  }
  EXPECT_EQ(Arrive(1), Route::kNegotiated) << "but not long after";
}

// As with a model whose sequences have another length in each step: every plan becomes active, and
// what is kept does not grow.
TEST_F(PlanLaneTest, AHundredThousandRetraces) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr std::int64_t kRetraces = 2000;
#else
  constexpr std::int64_t kRetraces = 100000;
#endif
  for (std::int64_t i = 0; i < kRetraces; ++i) {
    const Plan plan = MakePlan("p" + std::to_string(i), 2, {{0}, {1}}, 1 + 2 * i);
    Activate(plan);
    Planned(plan);
    lane_.Remove(plan);
    ASSERT_LE(lane_.Reports().size(), 2u);
  }
}

TEST_F(PlanLaneTest, NoTicketsForNewBucketsKeepsTheOldOnes) {
  times_ = true;
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}));
  for (int pass = 0; pass < 5; ++pass) {
    for (int slot = 0; slot < 3; ++slot) {
      Arrive(1 + slot);
      lane_.Finished(lane_.Take(slot));
    }
  }
  EXPECT_TRUE(lane_.WantsCouncil());
  const std::string slow = ToRow({Says(Stand::kActive, 7)});
  const auto timed = [](std::vector<std::int64_t> times) {
    Statement statement = Says(Stand::kActive, 7);
    statement.times = std::move(times);
    return ToRow({statement});
  };
  // All apart: 3 new buckets where 2 tickets are left.
  lane_.MeetingRow(true);
  lane_.Apply({timed({0, 5000, 10000}), slow});
  EXPECT_EQ(ReportOf("p").buckets, (Buckets{{0}, {1}, {2}}));
  EXPECT_EQ(ReportOf("p").state, "active");
  // Fused: the threshold allows two of them.
  lane_.MeetingRow(true);
  lane_.Apply({timed({20, 10, 0}), slow});
  EXPECT_EQ(ReportOf("p").buckets, (Buckets{{2, 1}, {0}}));
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(tickets_.back(), 4);
}

TEST_F(PlanLaneTest, ADifferentTensorIsNegotiatedOnEveryRankAndNamed) {
  Activate(MakePlan("p", 2, {{0}, {1}}));
  EXPECT_EQ(Arrive(1, 8), Route::kHeld);
  EXPECT_TRUE(lane_.WantsCouncil());
  const auto outcome = Council();
  EXPECT_EQ(outcome.negotiated.size(), 1u);
  EXPECT_EQ(outcome.rejected, std::vector<std::string>{
                                  "plan p (p): rank 0: 'a': it has 8 bytes, planned are 4"});
  Activate(MakePlan("q", 2, {{0}, {1}}, 11));
  EXPECT_EQ(Arrive(12, 4, "it is reduced by Adasum"), Route::kHeld);
  EXPECT_EQ(Council().rejected,
            std::vector<std::string>{"plan q (q): rank 0: 'b': it is reduced by Adasum"});
}

TEST_F(PlanLaneTest, WhatOthersWaitForIsTakenBackWhenTheirTensorDiffers) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  Arrive(3);
  Statement other = Says(Stand::kEnding, kShadowPasses, "'b': it is green");
  other.completed = {0, 0};
  EXPECT_EQ(Council({ToRow({other})}).negotiated.size(), 2u);
  EXPECT_EQ(Arrive(2), Route::kNegotiated);
}

TEST_F(PlanLaneTest, DifferentInTheFirstPassFailsThePlan) {
  lane_.Add(MakePlan("p", 2, {{0}, {1}}));
  EXPECT_EQ(Arrive(2, 8), Route::kNegotiated);
  EXPECT_EQ(Council().rejected, std::vector<std::string>{
                                    "plan p (p): rank 0: 'b': it has 8 bytes, planned are 4"});
}

TEST_F(PlanLaneTest, ZerosForWhatOthersHaveBegunWhenTheRankJoined) {
  Activate(MakePlan("p", 1, {{0}}));
  lane_.Join();
  // Rank 1 has begun two passes more than this one.
  Council({ToRow({Says(Stand::kActive, kShadowPasses + 2)})});
  EXPECT_EQ(tickets_, std::vector<int>{0});
  EXPECT_EQ(lane_.Take(0).arrivals[0], nullptr);
  EXPECT_EQ(tickets_, (std::vector<int>{0, 0}));
  EXPECT_EQ(lane_.Take(0).pass, kShadowPasses + 2u);
  EXPECT_EQ(tickets_.size(), 2u);
}

TEST_F(PlanLaneTest, RestartOfAllPlansWhichKeepTheirTickets) {
  Activate(MakePlan("p", 1, {{0}}, 1));
  lane_.Add(MakePlan("q", 1, {{0}}, 11));
  for (int epoch = 0; epoch < kCapacity; ++epoch) {
    lane_.Join();
    Council();
    EXPECT_EQ(ReportOf("p").state, "shadowed");
    lane_.Restart();
    for (int pass = 0; pass < kShadowPasses; ++pass) {
      for (std::int64_t key : {1, 11}) EXPECT_EQ(Arrive(key), Route::kNegotiated);
    }
    Council();
    EXPECT_EQ(ReportOf("p").state, "active");
    EXPECT_EQ(ReportOf("q").state, "active");
  }
}

TEST_F(PlanLaneTest, CloseReturnsWhatIsLeftAndNegotiatesTheRest) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  Arrive(3);
  lane_.MeetingRow(false);
  Arrive(2);
  EXPECT_EQ(lane_.Close().size(), 3u);
  EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_TRUE(lane_.Close().empty());
}

TEST_F(PlanLaneTest, AfterRefuseNoBucketBecomesComplete) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  Arrive(3);
  lane_.Refuse();
  EXPECT_EQ(Arrive(2), Route::kNegotiated);
  EXPECT_EQ(tickets_, std::vector<int>{1});
  const Work work = lane_.Take(1);
  EXPECT_NE(work.arrivals.at(0), nullptr);
  EXPECT_FALSE(lane_.Finished(work));
  EXPECT_EQ(lane_.Close().size(), 1u) << "what is in the other bucket";
}

TEST_F(PlanLaneTest, AfterRefuseAJoinedRankSuppliesNoMoreZeros) {
  Activate(MakePlan("p", 1, {{0}}));
  lane_.Join();
  Council({ToRow({Says(Stand::kActive, kShadowPasses + 2)})});
  EXPECT_EQ(tickets_, std::vector<int>{0});
  lane_.Refuse();
  EXPECT_EQ(lane_.Take(0).arrivals.at(0), nullptr);
  EXPECT_EQ(tickets_, std::vector<int>{0});
}

TEST_F(PlanLaneTest, ReportsTellWhatHasBecomeOfEachPlan) {
  lane_.Add(MakePlan("p", 2, {{0, 1}}));
  EXPECT_EQ(ReportOf("p").state, "shadowed");
  for (int pass = 0; pass < kShadowPasses; ++pass) {
    for (std::int64_t key : {1, 2}) Arrive(key);
  }
  EXPECT_EQ(ReportOf("p").state, "ready");
  Council({""});
  EXPECT_EQ(ReportOf("p").reason, "waits for its first passes on rank 1");
  Council();
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

TEST_F(PlanLaneTest, LateTensorsAreNamed) {
  Activate(MakePlan("p", 2, {{0, 1}}));
  Arrive(2);
  EXPECT_TRUE(lane_.LateSince(PlanLane::Clock::time_point::min()).empty());
  const auto late = lane_.LateSince(PlanLane::Clock::now());
  ASSERT_EQ(late.size(), 1u);
  EXPECT_EQ(late[0].plan, "p");
  EXPECT_EQ(late[0].pass, kShadowPasses + 1u);
  EXPECT_EQ(late[0].here, std::vector<std::string>{"b"});
  EXPECT_EQ(late[0].missing, std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace horovod_opt
