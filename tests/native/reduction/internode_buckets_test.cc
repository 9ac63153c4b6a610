// Ranks of several groups, with framework threads that send in random orders, and votes in which
// plans end while their buckets are on the way; ThreadSanitizer looks on.
#include "horovod_opt/csrc/core/reduction/internode_buckets.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "tests/native/reduction/internode_ranks.h"

namespace horovod_opt {
namespace internode_buckets_test {

using namespace internode_ranks;

constexpr int kSlots = 6;

// From one number to several chunks of an allreduce; some that the ranks cannot share evenly.
std::size_t SizeOf(std::int64_t key) {
  const std::size_t sizes[] = {1, 17, 3, 3000, 260, 9001};
  return sizes[key % 6];
}

Plan Call(int number) {
  std::vector<int> bucket(kSlots);
  std::iota(bucket.begin(), bucket.end(), 0);
  // Two buckets, so that one may be complete and the other not.
  Buckets buckets{{bucket.begin(), bucket.begin() + 2}, {bucket.begin() + 2, bucket.end()}};
  const std::int64_t first_key = 6 * (number + 1);
  Plan plan = MakePlan("p" + std::to_string(number), kSlots, buckets, first_key);
  for (int slot = 0; slot < kSlots; ++slot) {
    plan.slots[slot].bytes = static_cast<std::int64_t>(SizeOf(first_key + slot) * 4);
    plan.slots[slot].reduction = kInts;
  }
  plan.is_call = true;
  return plan;
}

Numbers ValuesOf(int rank, std::int64_t key, int iteration) {
  Numbers values(SizeOf(key));
  std::iota(values.begin(), values.end(), 10000 * rank + 100 * static_cast<int>(key) + iteration);
  return values;
}

Numbers SumsOf(int ranks, std::int64_t key, int iteration) {
  const int all = 100 * static_cast<int>(key) + iteration;
  Numbers sums(SizeOf(key));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = ranks * (all + static_cast<int>(i)) + 10000 * ranks * (ranks - 1) / 2;
  }
  return sums;
}

// One iteration of a plan, its tensors in random order. `after(n)` is called after the n-th.
template <class After>
void Iterate(Rank& own, int rank, int ranks, const Plan& plan, int iteration,
             std::minstd_rand& random, const After& after) {
  std::vector<Numbers> results(kSlots);
  std::array<std::atomic<bool>, kSlots> done{};
  std::vector<int> order(kSlots);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (int n = 0; n < kSlots; ++n) {
    const std::int64_t key = plan.slots[order[n]].key;
    own.Send(plan.slots[order[n]], ValuesOf(rank, key, iteration), random() % 16 == 0 ? 3 : 0,
             results[order[n]], done[order[n]]);
    if (random() % 8 == 0) std::this_thread::yield();
    after(n);
  }
  for (int slot = 0; slot < kSlots; ++slot) {
    while (!done[slot]) std::this_thread::yield();
    const std::int64_t key = plan.slots[slot].key;
    ASSERT_EQ(results[slot], SumsOf(ranks, key, iteration))
        << "key " << key << ", iteration " << iteration << ", rank " << rank;
  }
}

// Groups and ranks of each.
class InternodeBucketsRanks : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(InternodeBucketsRanks, EveryTensorGetsItsSumAlsoWhenPlansEnd) {
  constexpr int kPlans = 4, kIterations = 6;  // of each thread, and of each plan
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  std::vector<Plan> plans;
  for (int number = 0; number < kThreads * kPlans; ++number) plans.push_back(Call(number));
  auto all = RanksWith(world, plans);
  std::vector<std::atomic<int>> remaining(static_cast<std::size_t>(world.Size()));
  for (auto& count : remaining) count = kThreads;
  OnRanks(world.Size() * (kThreads + 1), [&](int thread) {
    const int rank = thread % world.Size(), part = thread / world.Size();
    Rank& own = *all[rank];
    if (part == kThreads) return own.Vote(remaining[rank]);
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    for (int number = 0; number < kPlans; ++number) {
      const Plan& plan = plans[part * kPlans + number];
      // One rank ends the plan in the middle of this iteration, if there is such a one.
      const int last = (number * 5 + part) % (kIterations + 2);
      const int who = (3 * number + part) % world.Size();
      for (int iteration = 0; iteration < kIterations; ++iteration) {
        Iterate(own, rank, world.Size(), plan, iteration, random, [&](int n) {
          if (rank == who && iteration == last && n == number % kSlots) {
            own.plans().Reject(plan.hash, "the test says so");
          }
        });
      }
    }
    --remaining[rank];
  });
  EXPECT_GT(world.reduced, 0);
  EXPECT_GT(world.negotiation.reduced(), 0);
  EXPECT_EQ(world.differs, 0);
  all.clear();
  for (Loopback& net : world.nets) EXPECT_EQ(net.Left(), 0u);
}

// A group goes ahead alone; then the plan ends, the other group takes the bucket back, and both
// negotiate it.
TEST_P(InternodeBucketsRanks, WhatOneGroupHasBegunIsTakenBackByTheOthers) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const Plan plan = Call(0);
  auto all = RanksWith(world, {plan});
  std::vector<std::atomic<int>> remaining(static_cast<std::size_t>(world.Size()));
  for (auto& count : remaining) count = 1;
  OnRanks(2 * world.Size(), [&](int thread) {
    const int rank = thread % world.Size();
    Rank& own = *all[rank];
    const bool first_group = rank < world.ranks;
    if (thread < world.Size()) {
      // The others vote once before they send anything.
      const auto vote = [&] {
        const auto rows = world.meetings.Gather(rank, own.plans().VoteRow(rank == 0, false));
        auto outcome = own.plans().Apply(rows);
        for (auto& arrival : outcome.to_negotiate) world.negotiation.Send(std::move(arrival));
      };
      std::minstd_rand random(static_cast<unsigned>(rank) + 1);
      if (!first_group) {
        world.meetings.Gather(rank, "the first group has sent");
        if (rank == world.Size() - 1) own.plans().Reject(plan.hash, "the test says so");
        vote();
      }
      Iterate(own, rank, world.Size(), plan, 0, random, [&](int n) {
        if (!first_group || n < kSlots - 1) return;
        world.meetings.Gather(rank, "the first group has sent");
        vote();
      });
      --remaining[rank];
    } else {
      while (remaining[rank] == 1) {
        // The votes of Iterate() come first.
        if (own.plans().Reports()[0].state == "negotiated") break;
        std::this_thread::yield();
      }
      own.Vote(remaining[rank]);
    }
  });
  EXPECT_EQ(world.reduced, 0);
  EXPECT_EQ(world.given_back, 2 * world.ranks) << "both buckets, on each rank of the first group";
  EXPECT_EQ(world.negotiation.reduced(), kSlots);
  all.clear();
  for (Loopback& net : world.nets) EXPECT_EQ(net.Left(), 0u);
}

// In the end a rank waits for what is complete everywhere, and for nothing else.
TEST_P(InternodeBucketsRanks, TheEndWaitsForWhatAllRanksHaveSent) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const Plan plan = Call(0);
  const auto all = RanksWith(world, {plan});
  OnRanks(world.Size(), [&](int rank) {
    std::vector<Numbers> results(kSlots);
    std::array<std::atomic<bool>, kSlots> done{};
    for (int slot = 0; slot < kSlots; ++slot) {
      if (slot == 5 && rank == 0) continue;  // of the second bucket
      const std::int64_t key = plan.slots[slot].key;
      all[rank]->Send(plan.slots[slot], ValuesOf(rank, key, 0), 0, results[slot], done[slot]);
    }
    EXPECT_TRUE(all[rank]->AwaitTheRest());
    while (!done[1]) std::this_thread::yield();
    EXPECT_EQ(results[1], SumsOf(world.Size(), plan.slots[1].key, 0));
    EXPECT_FALSE(done[4]);
    world.meetings.Gather(rank, "all have looked");
    all[rank]->Leave(rank == 0 ? 3 : 4);  // the second bucket
  });
}

TEST_P(InternodeBucketsRanks, GroupsThatMeanDifferentBucketsAreTold) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const Plan plan = Call(0);
  const auto all = RanksWith(world, {plan}, Different({plan}));
  OnRanks(world.Size(), [&](int rank) {
    std::vector<Numbers> results(kSlots);
    std::array<std::atomic<bool>, kSlots> done{};
    for (int slot = 0; slot < kSlots; ++slot) {
      const std::int64_t key = plan.slots[slot].key;
      all[rank]->Send(plan.slots[slot], ValuesOf(rank, key, 0), 0, results[slot], done[slot]);
    }
    for (int slot = 0; slot < kSlots; ++slot) {
      while (!done[slot]) std::this_thread::yield();
      EXPECT_EQ(results[slot], Numbers(results[slot].size(), -1)) << "nothing may be written";
    }
  });
  EXPECT_EQ(world.differs, 2 * world.Size()) << "each bucket, on every rank";
}

TEST(InternodeBucketsState, TellsWhichBucketsAreOnTheirWayAndToWhom) {
  World world(2, 1);
  const Plan plan = Call(0);
  const auto all = RanksWith(world, {plan});
  EXPECT_EQ(all[1]->State(), "this rank is of group 1; its peers are of group 0 rank 0\n");
  std::vector<Numbers> results[2] = {std::vector<Numbers>(kSlots), std::vector<Numbers>(kSlots)};
  std::array<std::atomic<bool>, kSlots> done[2]{};
  const auto send = [&](int rank) {
    for (int slot = 0; slot < kSlots; ++slot) {
      const std::int64_t key = plan.slots[slot].key;
      all[rank]->Send(plan.slots[slot], ValuesOf(rank, key, 0), 0, results[rank][slot],
                      done[rank][slot]);
    }
  };
  send(0);
  const auto on_their_way = [&] {
    const std::string text = all[0]->State();
    return text.find(
               "this rank is of group 0; its peers are of group 1 rank 1\n"
               "between nodes for ") == 0 &&
           text.find("bucket 0 (plan " + plan.name + ": '") != std::string::npos &&
           text.find("bucket 1 (plan " + plan.name + ": '") != std::string::npos;
  };
  EXPECT_TRUE(Await(on_their_way)) << all[0]->State();
  send(1);
  for (const auto& of_rank : done) {
    for (const auto& is_done : of_rank) EXPECT_TRUE(Await([&] { return is_done.load(); }));
  }
  EXPECT_EQ(all[0]->State(), "this rank is of group 0; its peers are of group 1 rank 1\n");
}

INSTANTIATE_TEST_SUITE_P(GroupsAndRanks, InternodeBucketsRanks,
                         testing::Values(std::make_tuple(2, 1), std::make_tuple(2, 2),
                                         std::make_tuple(3, 1), std::make_tuple(3, 2),
                                         std::make_tuple(4, 1), std::make_tuple(4, 2)));

}  // namespace internode_buckets_test
}  // namespace horovod_opt
