// Plans whose tensors are on GPUs, and plans that wait for other ranks.
#include <gtest/gtest.h>

#include <memory>

#include "horovod_opt/csrc/core/plan/consensus.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace plan_placement_test {

constexpr int kCapacity = 20;
const Reduction kHost, kGpu{0, 0, 1.0, 1.0, 0}, kOtherGpu{0, 0, 1.0, 1.0, 1};

class PlanPlacement : public testing::Test {
 protected:
  // One iteration of plan "p" on rank `rank`: slot n, whose key is n + 1, arrives with the n-th
  // reduction.
  Route Arrive(int rank, const std::vector<Reduction>& reductions) {
    Route route = Route::kNegotiated;
    for (std::size_t slot = 0; slot < reductions.size(); ++slot) {
      route = ArriveAt(plans_[rank], static_cast<std::int64_t>(slot) + 1, 4, reductions[slot]);
    }
    return route;
  }

  // Both ranks meet; what rank 0 would say.
  std::vector<std::string> Meet() {
    const auto rows = ByRank({plans_[0].VoteRow(true, false), plans_[1].VoteRow(false, false)});
    plans_[1].Apply(rows);
    return plans_[0].Apply(rows).rejections;
  }

  void Add(const Plan& plan) {
    for (PlanTable& plans : plans_) plans.Add(plan);
  }

  std::vector<int> ready_;
  PlanTable plans_[2] = {
      {kCapacity, [this](const auto& work) { ready_.push_back(work.bucket->id); }, [] {}},
      {kCapacity, [](const auto&) {}, [] {}}};
};

TEST_F(PlanPlacement, IsLearnedInTheFirstIteration) {
  Add(MakePlan("p", 2, {{0}, {1}}));
  for (int rank : {0, 1}) {
    for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) Arrive(rank, {kGpu, kHost});
  }
  EXPECT_FALSE(plans_[0].AnyCommitted(true));
  EXPECT_TRUE(Meet().empty());
  EXPECT_TRUE(plans_[0].AnyCommitted(false));
  EXPECT_EQ(Arrive(0, {kGpu, kHost}), Route::kPlanned);
  ASSERT_EQ(ready_.size(), 2u);
  const Work first = plans_[0].Take(ready_[0]);
  EXPECT_TRUE(first.bucket->first().reduction.OnGpu());
  EXPECT_EQ(first.Describe(), "plan p (p), iteration 3, bucket 0: a");
  plans_[0].Take(ready_[1]);
  EXPECT_EQ(Arrive(0, {kHost}), Route::kDeferred);
  const auto messages = Meet();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("it is in main memory, and was on GPU 0 in its first iteration"),
            std::string::npos);
}

TEST_F(PlanPlacement, PlansInMainMemoryOnly) {
  Add(MakePlan("p", 1, {{0}}));
  for (int rank : {0, 1}) {
    for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) Arrive(rank, {kHost});
  }
  Meet();
  EXPECT_TRUE(plans_[0].AnyCommitted(true));
  EXPECT_FALSE(plans_[0].AnyCommitted(false));
}

TEST_F(PlanPlacement, AChangeInTheSecondIterationFailsThePlan) {
  Add(MakePlan("p", 1, {{0}}));
  Arrive(0, {kHost});
  Arrive(0, {kGpu});
  const auto messages = Meet();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("'a': it is on GPU 0, and was in main memory in its first iteration"),
            std::string::npos);
}

TEST_F(PlanPlacement, EveryRankKnowsTheDevicesOfAll) {
  Add(MakePlan("p", 3, {{0, 1}, {2}}));
  for (int iteration = 0; iteration < 3; ++iteration) {
    Arrive(0, {kGpu, kGpu, kHost});
    Arrive(1, {kOtherGpu, kOtherGpu, kHost});
    if (iteration == 1) {
      EXPECT_TRUE(Meet().empty());
    }
  }
  ASSERT_EQ(ready_.size(), 2u);
  const Work fused = plans_[0].Take(ready_[0]);
  ASSERT_EQ(fused.bucket->slots, (std::vector<int>{0, 1}));
  for (int slot : fused.bucket->slots)
    EXPECT_EQ(*fused.bucket->plan->slots[slot].devices, (Devices{0, 1}));
  const Work alone = plans_[0].Take(ready_[1]);
  EXPECT_EQ(*alone.bucket->first().devices, (Devices{kMainMemory, kMainMemory}));
}

TEST_F(PlanPlacement, NewBucketsAreTheSameWhereOneRankHasTwoGpus) {
  Plan plan = MakePlan("p", 2, {{0}, {1}});
  Add(plan);
  const auto iteration = [&] {
    Arrive(0, {kGpu, kGpu});
    Arrive(1, {kGpu, kOtherGpu});
  };
  iteration();
  iteration();
  EXPECT_TRUE(Meet().empty());
  for (int number = 0; number < kTimedIterations; ++number) {
    ready_.clear();
    iteration();
    ASSERT_EQ(ready_.size(), 2u);
    for (PlanTable& plans : plans_) {
      for (int bucket_id : {ready_[0], ready_[1]}) plans.MarkReduced(plans.Take(bucket_id));
    }
  }
  const auto rows = ByRank({plans_[0].VoteRow(true, true), plans_[1].VoteRow(false, false)});
  ASSERT_FALSE(FromRow(rows.at(0)).at(0).times.empty());
  for (PlanTable& plans : plans_) {
    plans.Apply(rows);
    EXPECT_EQ(plans.Reports().at(0).buckets, (Buckets{{0}, {1}}));
  }
}

TEST_F(PlanPlacement, BucketsOfTensorsOnOtherDevicesStayApart) {
  const struct {
    Reduction b, c;     // on rank 0
    Reduction other_c;  // on rank 1
    Buckets buckets;
  } cases[] = {{kGpu, kHost, kHost, {{0, 2}, {1}, {3}}},
               {kHost, kGpu, kOtherGpu, {{0, 1}, {2}, {3}}},
               {kGpu, kOtherGpu, kOtherGpu, {{0}, {1}, {2}, {3}}},
               {kGpu, kGpu, kOtherGpu, {{0}, {1}, {2}, {3}}},  // on rank 1 alone
               {kGpu, kGpu, kGpu, {{0}, {1, 2}, {3}}},
               {kHost, kHost, kHost, {{0, 1, 2}, {3}}}};
  for (const auto& test_case : cases) {
    PlanTable plans[2] = {{kCapacity, [](const auto&) {}, [] {}},
                          {kCapacity, [](const auto&) {}, [] {}}};
    for (PlanTable& table : plans) table.Add(MakePlan("p", 4, {{0, 1, 2}, {3}}));
    for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
      for (int rank : {0, 1}) {
        const Reduction reductions[] = {kHost, test_case.b,
                                        rank == 0 ? test_case.c : test_case.other_c, kHost};
        for (std::int64_t key : {1, 2, 3, 4}) ArriveAt(plans[rank], key, 4, reductions[key - 1]);
      }
    }
    const auto rows = ByRank({plans[0].VoteRow(true, false), plans[1].VoteRow(false, false)});
    for (PlanTable& table : plans) {
      EXPECT_TRUE(table.Apply(rows).rejections.empty());
      EXPECT_EQ(table.Reports().at(0).state, "active");
      EXPECT_EQ(table.Reports().at(0).buckets, test_case.buckets);
    }
  }
}

TEST_F(PlanPlacement, AStepIsAbandonedAlikeWhereverItsTensorsAre) {
  for (const Reduction& where : {kHost, kGpu}) {
    PlanTable plans(kCapacity, [](const auto&) {}, [] {});
    plans.Add(MakePlan("p", 2, {{0, 1}}));
    const auto vote = [&] { return plans.Apply(ByRank({plans.VoteRow(true, false)})); };
    const auto send = [&](std::int64_t key, std::int64_t step) {
      ArrivalPtr arrival = std::make_unique<Arrival>();
      arrival->step = step;
      return ArriveAt(plans, key, arrival, 4, where);
    };
    const auto warm_up = [&](std::int64_t step) {
      for (const std::int64_t end = step + kWarmUpIterations; step < end; ++step) {
        for (std::int64_t key : {1, 2}) EXPECT_EQ(send(key, step), Route::kNegotiated);
      }
      vote();
    };
    warm_up(1);
    EXPECT_EQ(send(1, 7), Route::kPlanned);
    plans.StepOver({1, 2}, 7);
    const auto outcome = vote();
    ASSERT_EQ(outcome.to_negotiate.size(), 1u);
    EXPECT_EQ(outcome.to_negotiate[0]->reduction.device, where.device);
    EXPECT_NE(outcome.to_negotiate[0]->failure.find("rank 0 has left it without 'b'."),
              std::string::npos);
    EXPECT_EQ(send(2, 7), Route::kAbandoned);
    vote();
    warm_up(8);
    EXPECT_EQ(send(1, 20), Route::kPlanned);
  }
}

TEST_F(PlanPlacement, RanksThatDifferKeepThePlanNegotiated) {
  Add(MakePlan("p", 2, {{0}, {1}}));
  for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
    Arrive(0, {kGpu, kHost});
    Arrive(1, {kGpu, kGpu});
  }
  const auto messages = Meet();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("rank 1: it has other tensors on GPUs than rank 0"),
            std::string::npos);
  EXPECT_EQ(Arrive(0, {kGpu, kHost}), Route::kNegotiated);
  EXPECT_EQ(Arrive(1, {kGpu, kGpu}), Route::kNegotiated);
}

TEST_F(PlanPlacement, APlanThatWaitsForARankIsSaidOnce) {
  plans_[0].Add(MakePlan("p", 2, {{0, 1}}));
  std::vector<std::string> messages;
  std::vector<int> votes;  // after so many iterations
  for (int iteration = 1; iteration <= 1000; ++iteration) {
    Arrive(0, {kHost, kHost});
    if (!plans_[0].WantsVote()) continue;
    votes.push_back(iteration);
    for (const std::string& message : Meet()) messages.push_back(message);
    if (iteration < kPatientIterations) {
      EXPECT_TRUE(messages.empty());
    }
  }
  EXPECT_EQ(messages, std::vector<std::string>{"plan p (p): its warm-up is not over on rank 1"});
  EXPECT_EQ(votes, (std::vector<int>{kWarmUpIterations, 64, 128, 256, 512}));
}

}  // namespace plan_placement_test
}  // namespace horovod_opt
