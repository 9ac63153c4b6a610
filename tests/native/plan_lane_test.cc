#include "plan_lane.h"

#include <gtest/gtest.h>

#include "sample_plans.h"

namespace horovod_opt {
namespace {

constexpr int kCapacity = 5;
constexpr int kShadowPasses = 2;

// One rank, alone or with others whose rows the test writes.
class PlanLaneTest : public testing::Test {
 protected:
  PlanLane::Arrived Send(std::int64_t key, std::int64_t bytes = 4,
                         const std::string& problem = "") {
    ArrivalPtr arrival = std::make_unique<Arrival>();
    return lane_.Arrive(key, bytes, {}, problem, arrival);
  }
  Route Arrive(std::int64_t key) { return Send(key).route; }

  PlanLane::Outcome Council(const std::vector<std::string>& others = {}) {
    std::vector<std::string> rows{lane_.MeetingRow(times_)};
    rows.insert(rows.end(), others.begin(), others.end());
    return lane_.Apply(rows);
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
  const std::string other = ToRow({{"p", Stand::kFailed, 0, "no", {}, {}}});
  EXPECT_EQ(Council({other}).rejected, std::vector<std::string>{"plan p: rank 1: no"});
}

TEST_F(PlanLaneTest, WhereNothingCanBePlanned) {
  lane_.Disable("no memory");
  lane_.Add(MakePlan("p", 1, {{0}}));
  for (int pass = 0; pass < 2 * kShadowPasses; ++pass) EXPECT_EQ(Arrive(1), Route::kNegotiated);
  EXPECT_EQ(ReportOf("p").state, "negotiated");
  EXPECT_EQ(ReportOf("p").reason, "no memory");
  Council({ToRow({{"p", Stand::kReady, 2, "", {}, {}}})});
  EXPECT_EQ(ReportOf("p").reason, "rank 0: no memory");
}

TEST_F(PlanLaneTest, MoreBucketsThanTicketsAreRejected) {
  Activate(MakePlan("p", 3, {{0}, {1}, {2}}, 1));
  Activate(MakePlan("q", 3, {{0}, {1}, {2}}, 11));
  EXPECT_EQ(ReportOf("q").state, "negotiated");
  EXPECT_EQ(ReportOf("q").reason, "all plans together have more than 5 buckets");
  EXPECT_EQ(Arrive(11), Route::kNegotiated);
  Activate(MakePlan("r", 2, {{0}, {1}}, 21));
  EXPECT_EQ(ReportOf("r").state, "active");
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
  const std::string slow = ToRow({{"p", Stand::kActive, 7, "", {}, {}}});
  // All apart: 3 new buckets where 2 tickets are left.
  lane_.MeetingRow(true);
  lane_.Apply({ToRow({{"p", Stand::kActive, 7, "", {0, 5000, 10000}, {}}}), slow});
  EXPECT_EQ(ReportOf("p").buckets, (Buckets{{0}, {1}, {2}}));
  EXPECT_EQ(ReportOf("p").state, "active");
  // Fused: the threshold allows two of them.
  lane_.MeetingRow(true);
  lane_.Apply({ToRow({{"p", Stand::kActive, 7, "", {20, 10, 0}, {}}}), slow});
  EXPECT_EQ(ReportOf("p").buckets, (Buckets{{2, 1}, {0}}));
  EXPECT_EQ(Arrive(1), Route::kPlanned);
  EXPECT_EQ(tickets_.back(), 4);
}

TEST_F(PlanLaneTest, ADifferentTensorIsNamed) {
  Activate(MakePlan("p", 2, {{0}, {1}}));
  const auto longer = Send(1, 8);
  EXPECT_EQ(longer.route, Route::kDiffers);
  EXPECT_EQ(longer.reason, "tensor 'a' of plan p cannot be reduced: it has 8 bytes, planned are 4");
  EXPECT_EQ(Send(2, 4, "it is on a GPU").reason,
            "tensor 'b' of plan p cannot be reduced: it is on a GPU");
  EXPECT_EQ(Arrive(1), Route::kPlanned);
}

TEST_F(PlanLaneTest, DifferentInTheFirstPassFailsThePlan) {
  lane_.Add(MakePlan("p", 2, {{0}, {1}}));
  EXPECT_EQ(Send(2, 8).route, Route::kNegotiated);
  EXPECT_EQ(Council().rejected, std::vector<std::string>{
                                    "plan p (p): rank 0: 'b': it has 8 bytes, planned are 4"});
}

TEST_F(PlanLaneTest, ZerosAlsoForAPlanThatWasRejectedBeforeTheRankJoined) {
  Activate(MakePlan("p", 1, {{0}}));
  // Rank 1 has begun two passes more than this one.
  Council({ToRow({{"p", Stand::kEnding, kShadowPasses + 2, "no more", {}, {}}})});
  EXPECT_TRUE(tickets_.empty());
  lane_.Join();
  Council({""});
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
  Council({ToRow({{"p", Stand::kActive, kShadowPasses + 2, "", {}, {}}})});
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
