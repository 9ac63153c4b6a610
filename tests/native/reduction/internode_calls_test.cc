// Allgathers and reducescatters of several groups, in random orders, whose plans end meanwhile;
// ThreadSanitizer looks on.
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <vector>

#include "tests/native/reduction/internode_ranks.h"

namespace horovod_opt {
namespace internode_calls_test {

using namespace internode_ranks;

constexpr int kRow = 3;  // numbers

Collective KindOf(std::int64_t key) {
  const Collective kinds[] = {Collective::kAllgather, Collective::kReducescatter,
                              Collective::kBroadcast};
  return kinds[key % 3];
}

// Of the rank, in this iteration; some are none, some several chunks.
std::int64_t GatheredRows(int rank, std::int64_t key, int iteration) {
  const std::int64_t rows[] = {0, 1, 5, 40, 1000, 3333};
  return rows[(rank * 5 + key + 7 * iteration) % 6];
}

// Of the others; fewer rows than ranks are possible, none too.
std::int64_t RowsOfKey(std::int64_t key) {
  const std::int64_t rows[] = {1, 2, 17, 0, 4001};
  return rows[key / 3 % 5];
}

int RootOf(std::int64_t key, int ranks) { return static_cast<int>(key / 3) % ranks; }

Plan CallPlan(std::int64_t key, int ranks) {
  Plan plan = MakePlan("c" + std::to_string(key), 1, {{0}}, key);
  plan.is_call = true;
  Slot& slot = plan.slots[0];
  slot.collective = KindOf(key);
  slot.reduction = kInts;
  const bool gathers = slot.collective == Collective::kAllgather;
  slot.bytes = 4 * kRow * (gathers ? 1 : RowsOfKey(key));
  if (slot.collective == Collective::kReducescatter) slot.rows = RowsOfKey(key);
  if (slot.collective == Collective::kBroadcast) slot.root = RootOf(key, ranks);
  return plan;
}

Numbers Values(int rank, std::int64_t key, int iteration) {
  const std::int64_t rows =
      KindOf(key) == Collective::kAllgather ? GatheredRows(rank, key, iteration) : RowsOfKey(key);
  Numbers values(static_cast<std::size_t>(rows * kRow));
  std::iota(values.begin(), values.end(),
            100000 * (rank + 1) + 100 * static_cast<int>(key) + iteration);
  return values;
}

// What comes out on the rank.
Numbers Expected(int rank, int ranks, std::int64_t key, int iteration) {
  if (KindOf(key) == Collective::kBroadcast) return Values(RootOf(key, ranks), key, iteration);
  Numbers all;
  for (int peer = 0; peer < ranks; ++peer) {
    const Numbers values = Values(peer, key, iteration);
    if (KindOf(key) == Collective::kAllgather) {
      all.insert(all.end(), values.begin(), values.end());
      continue;
    }
    all.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) all[i] += values[i];
  }
  if (KindOf(key) == Collective::kAllgather) return all;
  std::int64_t begin = 0;
  for (int peer = 0; peer < rank; ++peer) begin += RowsOf(RowsOfKey(key), peer, ranks);
  const std::int64_t rows = RowsOf(RowsOfKey(key), rank, ranks);
  return {all.begin() + begin * kRow, all.begin() + (begin + rows) * kRow};
}

std::vector<Plan> OfEachKind(int ranks) {
  return {CallPlan(6, ranks), CallPlan(7, ranks), CallPlan(8, ranks)};
}

// Groups and ranks of each.
class InternodeCalls : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  // Of the job's ranks; shuffled, they are in another order than the groups.
  std::vector<int> Order(bool shuffled) const {
    std::vector<int> order(
        static_cast<std::size_t>(std::get<0>(GetParam()) * std::get<1>(GetParam())));
    std::iota(order.begin(), order.end(), 0);
    if (shuffled) std::reverse(order.begin() + 1, order.end());
    return order;
  }
};

void Check(Rank& own, int rank, int ranks, const std::vector<Plan>& plans, int iteration,
           std::minstd_rand& random, const std::function<void(const Plan&)>& before) {
  std::vector<Numbers> results(plans.size());
  std::vector<std::atomic<bool>> done(plans.size());
  std::vector<int> order(plans.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (int which : order) {
    before(plans[which]);
    const Slot& slot = plans[which].slots[0];
    own.Send(slot, Values(rank, slot.key, iteration), random() % 16 == 0 ? 3 : 0, results[which],
             done[which]);
    if (random() % 8 == 0) std::this_thread::yield();
  }
  for (std::size_t which = 0; which < plans.size(); ++which) {
    while (!done[which]) std::this_thread::yield();
    const std::int64_t key = plans[which].slots[0].key;
    ASSERT_EQ(results[which], Expected(rank, ranks, key, iteration))
        << "key " << key << ", iteration " << iteration << ", rank " << rank;
  }
}

TEST_P(InternodeCalls, EveryCallGetsItsResultAlsoWhenPlansEnd) {
  constexpr int kPlans = 9, kIterations = 7;  // of each thread, and of each plan
  for (bool shuffled : {false, true}) {
    World world(std::get<0>(GetParam()), std::get<1>(GetParam()), Order(shuffled));
    std::vector<Plan> plans;
    std::vector<std::vector<Plan>> of_thread(kThreads);
    for (int key = 0; key < kThreads * kPlans; ++key) {
      plans.push_back(CallPlan(100 + key, world.Size()));
      of_thread[key % kThreads].push_back(plans.back());
    }
    auto all = RanksWith(world, plans);
    std::vector<std::atomic<int>> remaining(static_cast<std::size_t>(world.Size()));
    for (auto& count : remaining) count = kThreads;
    OnRanks(world.Size() * (kThreads + 1), [&](int thread) {
      const int rank = thread % world.Size(), part = thread / world.Size();
      Rank& own = *all[rank];
      if (part == kThreads) return own.Vote(remaining[rank]);
      std::minstd_rand random(static_cast<unsigned>(thread) + 1);
      for (int iteration = 0; iteration < kIterations; ++iteration) {
        Check(own, world.everybody[rank], world.Size(), of_thread[part], iteration, random,
              [&](const Plan& plan) {
                // Some end, each by one rank in one iteration.
                const auto key = plan.slots[0].key;
                if (key % world.Size() == rank && key % (kIterations + 4) == iteration) {
                  own.plans().Reject(plan.hash, "the test says so");
                }
              });
      }
      --remaining[rank];
    });
    EXPECT_GT(world.reduced, 0);
    EXPECT_GT(world.negotiation.reduced(), 0);
    EXPECT_EQ(world.differs, 0);
    EXPECT_EQ(world.incomplete, 0);
    all.clear();
    for (Loopback& net : world.nets) EXPECT_EQ(net.Left(), 0u);
  }
}

// A group goes ahead alone, then the plan ends: the others take back what it has begun, and all
// negotiate it.
TEST_P(InternodeCalls, WhatOneGroupHasBegunIsTakenBack) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const std::vector<Plan> plans = OfEachKind(world.Size());
  auto all = RanksWith(world, plans);
  OnRanks(world.Size(), [&](int rank) {
    Rank& own = *all[rank];
    std::vector<Numbers> results(plans.size());
    std::vector<std::atomic<bool>> done(plans.size());
    const auto send = [&] {
      for (std::size_t which = 0; which < plans.size(); ++which) {
        const Slot& slot = plans[which].slots[0];
        own.Send(slot, Values(rank, slot.key, 0), 0, results[which], done[which]);
      }
    };
    const bool first_group = rank < world.ranks;
    if (first_group) send();
    world.meetings.Gather(rank, "the first group has sent");
    if (rank == world.Size() - 1) {
      for (const Plan& plan : plans) own.plans().Reject(plan.hash, "the test says so");
    }
    for (int vote = 0; vote < 3; ++vote) {
      const auto rows = world.meetings.Gather(rank, own.plans().VoteRow(rank == 0, false));
      auto outcome = own.plans().Apply(rows);
      for (auto& arrival : outcome.to_negotiate) world.negotiation.Send(std::move(arrival));
    }
    if (!first_group) send();
    for (std::size_t which = 0; which < plans.size(); ++which) {
      while (!done[which]) std::this_thread::yield();
      EXPECT_EQ(results[which], Expected(rank, world.Size(), plans[which].slots[0].key, 0));
    }
    world.meetings.Gather(rank, "all have looked");
  });
  EXPECT_EQ(world.reduced, 0);
  EXPECT_EQ(world.given_back, 3 * world.ranks) << "all calls, on each rank of the first group";
  EXPECT_EQ(world.negotiation.reduced(), 3);
  all.clear();
  for (Loopback& net : world.nets) EXPECT_EQ(net.Left(), 0u);
}

TEST_P(InternodeCalls, GroupsThatMeanDifferentCallsAreTold) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const std::vector<Plan> plans = OfEachKind(world.Size());
  const auto all = RanksWith(world, plans, Different(plans));
  OnRanks(world.Size(), [&](int rank) {
    std::vector<Numbers> results(plans.size());
    std::vector<std::atomic<bool>> done(plans.size());
    for (std::size_t which = 0; which < plans.size(); ++which) {
      const Slot& slot = plans[which].slots[0];
      all[rank]->Send(slot, Values(rank, slot.key, 0), 0, results[which], done[which]);
    }
    for (std::size_t which = 0; which < plans.size(); ++which) {
      while (!done[which]) std::this_thread::yield();
      const Slot& slot = plans[which].slots[0];
      const bool gives = slot.collective == Collective::kBroadcast && rank == slot.root;
      const Numbers nothing(results[which].size(), -1);
      EXPECT_EQ(results[which], gives ? Values(rank, slot.key, 0) : nothing);
    }
  });
  EXPECT_EQ(world.differs, 3 * world.Size());
}

// A rank without memory for the result still passes on what the others need.
TEST_P(InternodeCalls, ARankWithoutMemoryCostsTheOthersNothing) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const Plan plan = CallPlan(6, world.Size());
  const auto all = RanksWith(world, {plan});
  OnRanks(world.Size(), [&](int rank) {
    Numbers result;
    std::atomic<bool> done{false};
    if (rank == 1) all[rank]->TakeMemoryAway();
    all[rank]->Send(plan.slots[0], Values(rank, 6, 0), 0, result, done);
    while (!done) std::this_thread::yield();
    const Numbers expected = Expected(rank, world.Size(), 6, 0);
    EXPECT_EQ(result, rank == 1 ? Numbers(expected.size(), -1) : expected);
  });
  EXPECT_EQ(world.reduced, world.Size());
}

// MPI cannot end what is under way, and may write it after the ranks have given up. The memory of
// the tensors stays for it; over a transport that can, it does not.
TEST_P(InternodeCalls, MemoryThatMessagesMayUseStays) {
  for (bool ends_must_stay : {false, true}) {
    World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
    world.ends_must_stay = ends_must_stay;
    std::vector<Plan> plans = OfEachKind(world.Size());
    plans.push_back(MakePlan("sum", 1, {{0}}, 99));
    plans.back().slots[0].bytes = 100000;
    auto all = RanksWith(world, plans);
    std::vector<Numbers> results(plans.size());
    std::vector<std::atomic<bool>> done(plans.size() * static_cast<std::size_t>(world.ranks));
    std::vector<std::weak_ptr<char>> memories;
    for (int rank = 0; rank < world.ranks; ++rank) {  // the first group alone
      for (std::size_t which = 0; which < plans.size(); ++which) {
        const Slot& slot = plans[which].slots[0];
        Numbers values(static_cast<std::size_t>(slot.bytes / 4), rank);
        memories.push_back(
            all[rank]->Send(slot, std::move(values), 0, results[which], done[memories.size()]));
      }
      all[rank]->Leave(plans.size());
    }
    for (Loopback& net : world.nets) {  // each bucket has channels of its own
      while (net.Channels() < plans.size()) std::this_thread::yield();
    }
    all.clear();
    ASSERT_EQ(memories.size(), plans.size() * static_cast<std::size_t>(world.ranks));
    for (const auto& memory : memories) EXPECT_EQ(memory.expired(), !ends_must_stay);
  }
}

// A rank that has joined gives zeros to an allreduce only: nobody gets a result of these.
TEST_P(InternodeCalls, NobodyGetsAResultWhereOneHasJoined) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const std::vector<Plan> plans = OfEachKind(world.Size());
  const auto all = RanksWith(world, plans);
  const int joins = world.Size() - 1;
  OnRanks(world.Size(), [&](int rank) {
    Rank& own = *all[rank];
    std::vector<Numbers> results(plans.size());
    std::vector<std::atomic<bool>> done(plans.size());
    for (std::size_t which = 0; which < plans.size() && rank != joins; ++which) {
      const Slot& slot = plans[which].slots[0];
      own.Send(slot, Values(rank, slot.key, 0), 0, results[which], done[which]);
    }
    world.meetings.Gather(rank, "all have sent");
    if (rank == joins) own.plans().Join();
    for (int vote = 0; vote < 3; ++vote) {
      own.plans().Apply(world.meetings.Gather(rank, own.plans().VoteRow(rank == 0, false)));
    }
    for (std::size_t which = 0; which < plans.size() && rank != joins; ++which) {
      while (!done[which]) std::this_thread::yield();
    }
    while (world.incomplete < 3 * world.Size()) std::this_thread::yield();
    world.meetings.Gather(rank, "all have looked");
  });
  EXPECT_EQ(world.reduced, 0);
}

INSTANTIATE_TEST_SUITE_P(GroupsAndRanks, InternodeCalls,
                         testing::Values(std::make_tuple(2, 1), std::make_tuple(2, 2),
                                         std::make_tuple(3, 1), std::make_tuple(3, 2),
                                         std::make_tuple(4, 1), std::make_tuple(4, 2)));

}  // namespace internode_calls_test
}  // namespace horovod_opt
