// Whole jobs: the rules of plan_run.h and consensus.h, in orders that nobody thought of.

#include "tests/native/plan/simulation/plan_simulation.h"

namespace horovod_opt {
namespace {

using Program = PlanSimulation::Program;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint32_t kSeeds = 15;
#else
constexpr std::uint32_t kSeeds = 60;
#endif

// Calls run(seed, random, ranks) for 2, 3 and 4 ranks by turns, until a seed fails.
template <class Run>
void ForSeeds(const Run& run) {
  for (std::uint32_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    run(seed, random, 2 + static_cast<int>(seed % 3));
  }
}

Program OnePlan(Random& random, int ranks, int iterations) {
  Program program;
  program.plans = {RandomPlan(random, "p")};
  program.threads = {{0}};
  program.iterations = {std::vector<int>(ranks, iterations)};
  return program;
}

TEST(PlanSimulation, EveryIterationIsReducedOnceAndInOneLane) {
  int planned = 0;
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    PlanSimulation job(OnePlan(random, ranks, 30), seed);
    job.Run();
    planned += job.PlannedIterations(0, 0);
    EXPECT_GT(job.PlannedIterations(0, 0), 0);
  });
  EXPECT_GT(planned, 20 * static_cast<int>(kSeeds));
}

TEST(PlanSimulation, NewBucketsFromTheTimesOfRank0) {
  int rebuilt = 0;
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program = OnePlan(random, ranks, 40);
    program.rebuilt = true;
    const int buckets = static_cast<int>(program.plans[0].buckets.size());
    PlanSimulation job(program, seed);
    job.Run();
    rebuilt += job.BucketIds(0) > buckets;
  });
  EXPECT_GT(rebuilt, static_cast<int>(kSeeds) / 2);  // not plans of one slot
}

TEST(PlanSimulation, RanksJoinAfterAnyIterationAndStartAnew) {
  int planned = 0;
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program = OnePlan(random, ranks, 0);
    program.rebuilt = seed % 2 == 0;
    for (int epoch = 0; epoch < 3; ++epoch) {
      auto& iterations = program.iterations.emplace_back();
      for (int rank = 0; rank < ranks; ++rank)
        iterations.push_back(static_cast<int>(random() % 20));
    }
    program.iterations.push_back(std::vector<int>(ranks, 30));
    PlanSimulation job(program, seed);
    job.Run();
    EXPECT_GT(job.PlannedIterations(0, 4), 0) << "the last epoch is planned again";
    for (int epoch = 1; epoch < 4; ++epoch) planned += job.PlannedIterations(0, epoch);
    EXPECT_LE(job.BucketIds(0),
              static_cast<int>(program.plans[0].buckets.size() + program.plans[0].slots.size()))
        << "new buckets once, not in every epoch";
  });
  EXPECT_GT(planned, 3 * static_cast<int>(kSeeds));
}

TEST(PlanSimulation, TwoPlansByTurnsAndAtOnce) {
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program;
    program.plans = {RandomPlan(random, "p"), RandomPlan(random, "q")};
    if (seed % 2 == 0) {
      program.threads = {{0}, {1}};
    } else {
      program.threads = {{0, 1, 1}};
    }
    program.rebuilt = seed % 4 < 2;
    program.iterations = {std::vector<int>(ranks, 25)};
    auto& uneven = program.iterations.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) uneven.push_back(static_cast<int>(random() % 25));
    PlanSimulation job(program, seed);
    job.Run();
    EXPECT_GT(job.PlannedIterations(0, 0), 0);
    EXPECT_GT(job.PlannedIterations(1, 0), 0);
  });
}

TEST(PlanSimulation, PlanThatOneRankDoesNotKnowStaysNegotiated) {
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program = OnePlan(random, ranks, 10);
    program.plans.push_back(RandomPlan(random, "q"));
    program.threads = {{0, 1}};
    program.without_plan = static_cast<int>(random() % ranks);
    PlanSimulation job(program, seed);
    job.Run();
    EXPECT_EQ(job.PlannedIterations(0, 0), 0);
    EXPECT_GT(job.PlannedIterations(1, 0), 0);
    EXPECT_TRUE(job.rejected().empty());
  });
}

TEST(PlanSimulation, RejectedAtAnyMoment) {
  int planned = 0, late = 0;
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program = OnePlan(random, ranks, 25);
    program.rebuilt = seed % 2 == 0;
    auto& uneven = program.iterations.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) uneven.push_back(static_cast<int>(random() % 10));
    for (int i = 0; i < 2; ++i) {
      program.disturbances.emplace_back(static_cast<int>(random() % ranks),
                                        [](PlanTable& plans) { plans.Reject("p", "why not"); });
    }
    program.disturbed_for = 200 << seed % 6;
    PlanSimulation job(program, seed);
    job.Run();
    planned += job.PlannedIterations(0, 0);
    late += job.rejected().empty();
  });
  EXPECT_GT(planned, 0);
  EXPECT_LT(late, static_cast<int>(kSeeds) / 2);
}

// Invariant 7 of plan_run.h: on the other ranks the tensor may come or not.
TEST(PlanSimulation, LeftOutAtAnyMoment) {
  int planned = 0, ended = 0;
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program = OnePlan(random, ranks, 25);
    program.rebuilt = seed % 2 == 0;
    auto& uneven = program.iterations.emplace_back();
    for (int rank = 0; rank < ranks; ++rank) uneven.push_back(static_cast<int>(random() % 10));
    program.iterations.push_back(std::vector<int>(ranks, 20));
    const int slots = static_cast<int>(program.plans[0].slots.size());
    for (int i = 0; i < 3; ++i) {
      const int rank = static_cast<int>(random() % ranks);
      const std::int64_t key = PlanSimulation::Key(rank, 0, static_cast<int>(random() % slots));
      program.disturbances.emplace_back(
          rank, [key](PlanTable& plans) { plans.LeaveOut(key, "it is sparse"); });
    }
    program.disturbed_for = seed % 2 == 0 ? 30 : 200 << seed % 6;
    PlanSimulation job(program, seed);
    job.Run();
    planned += job.PlannedIterations(0, 2);
    ended += static_cast<int>(job.rejected().size());
  });
  EXPECT_GT(planned, static_cast<int>(kSeeds));
  EXPECT_GT(ended, static_cast<int>(kSeeds) / 10);
}

TEST(PlanSimulation, ADifferentTensorAtAnyMoment) {
  int planned = 0, ended = 0;
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program = OnePlan(random, ranks, 25);
    program.plans.push_back(RandomPlan(random, "q"));
    program.threads = {{0}, {1}};
    program.rebuilt = seed % 2 == 0;
    if (seed % 3 == 0) {
      auto& uneven = program.iterations.emplace_back();
      for (int rank = 0; rank < ranks; ++rank) uneven.push_back(static_cast<int>(random() % 10));
    }
    const std::uint64_t when = 1 + random() % 24;
    for (int rank = 0; rank < ranks; ++rank) {
      const bool also = rank == 0 || random() % 2 == 0;  // all of them, now and then
      program.different.push_back(also ? when + random() % 2 : 0);
    }
    PlanSimulation job(program, seed);
    job.Run();
    planned += job.PlannedIterations(0, 0);
    ended += static_cast<int>(job.rejected().size());
    EXPECT_GT(job.PlannedIterations(1, 0), 0) << "another plan goes on";
  });
  EXPECT_GT(planned, static_cast<int>(kSeeds));
  EXPECT_GT(ended, static_cast<int>(kSeeds) / 2);
}

TEST(PlanSimulation, GraphsComeAndGo) {
  int planned = 0;
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program;
    program.plans = {RandomPlan(random, "p"), RandomPlan(random, "q")};
    program.threads = {{0, 0, 1}};
    program.rebuilt = seed % 2 == 0;
    program.retraces = 2 + static_cast<int>(seed % 5);
    program.iterations = {std::vector<int>(ranks, 60)};
    PlanSimulation job(program, seed);
    job.Run();
    planned += job.PlannedIterations(0, 0);
    EXPECT_TRUE(job.rejected().empty());
  });
  EXPECT_GT(planned, 5 * static_cast<int>(kSeeds));
}

TEST(PlanSimulation, PlansRestByTurns) {
  int planned = 0;
  ForSeeds([&](std::uint32_t seed, Random&, int ranks) {
    Program program;
    program.plans = {MakePlan("p", 3, {{0}, {1}, {2}}), MakePlan("q", 2, {{0}, {1}}),
                     MakePlan("r", 3, {{0, 1}, {2}}), MakePlan("s", 4, {{0}, {1}, {2}, {3}})};
    program.capacity = 5;
    program.threads = {{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}};
    program.idle = std::chrono::seconds(5);
    program.iterations = {std::vector<int>(ranks, 8 * 16)};
    PlanSimulation job(program, seed);
    job.Run();
    for (int plan = 0; plan < 4; ++plan) planned += job.PlannedIterations(plan, 0);
  });
  EXPECT_GT(planned, 30 * static_cast<int>(kSeeds));
}

TEST(PlanSimulation, RejectedWhileRanksJoin) {
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program = OnePlan(random, ranks, 0);
    program.iterations.clear();
    for (int epoch = 0; epoch < 4; ++epoch) {
      auto& iterations = program.iterations.emplace_back();
      for (int rank = 0; rank < ranks; ++rank) iterations.push_back(static_cast<int>(random() % 8));
    }
    program.disturbances.emplace_back(static_cast<int>(random() % ranks),
                                      [](PlanTable& plans) { plans.Reject("p", "why not"); });
    program.disturbed_for = 200 << seed % 6;
    PlanSimulation job(program, seed);
    job.Run();
  });
}

TEST(PlanSimulation, KeyOfAnotherPlanEndsBothEverywhere) {
  ForSeeds([&](std::uint32_t seed, Random& random, int ranks) {
    Program program = OnePlan(random, ranks, 60);
    const int rank = static_cast<int>(random() % ranks);
    program.disturbances.emplace_back(rank, [rank](PlanTable& plans) {
      plans.Add(MakePlan("q", 1, {{0}}, PlanSimulation::Key(rank, 0, 0)));
    });
    program.disturbed_for = 500;
    PlanSimulation job(program, seed);
    job.Run();
    ASSERT_EQ(job.rejected().size(), 2u);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const auto& plan : job.plans(rank).Reports()) EXPECT_EQ(plan.state, "negotiated");
    }
  });
}

}  // namespace
}  // namespace horovod_opt
