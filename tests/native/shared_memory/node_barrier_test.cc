#include "horovod_opt/csrc/core/shared_memory/node_barrier.h"

#include <random>

#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {
namespace node_barrier_test {

class NodeBarrierTest : public testing::Test {
 protected:
  Zeros memory_{sizeof(NodeBarrier)};
  NodeBarrier& barrier_ = memory_.As<NodeBarrier>();
  std::atomic<bool> stop_{false};
};

class NodeBarrierOfRanks : public NodeBarrierTest, public testing::WithParamInterface<int> {};

// Everybody sees what everybody did before the barrier, and nothing of what comes after the next.
TEST_P(NodeBarrierOfRanks, NobodyPassesBeforeAllHaveArrived) {
  const int ranks = GetParam();
  constexpr int kRounds = 2000;
  std::vector<std::vector<int>> round_of(2, std::vector<int>(ranks));
  OnRanks(ranks, [&](int rank) {
    std::mt19937 random(rank);
    WaitCounts counts;
    for (int round = 1; round <= kRounds; ++round) {
      if (random() % 100 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
      round_of[round % 2][rank] = round;
      ASSERT_TRUE(barrier_.Pass(static_cast<std::uint64_t>(round), ranks, stop_, counts));
      for (int peer = 0; peer < ranks; ++peer) ASSERT_EQ(round_of[round % 2][peer], round);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, NodeBarrierOfRanks, testing::Values(1, 2, 3, 7));

TEST_F(NodeBarrierTest, StopEndsTheWaitWithOrWithoutAKick) {
  for (const bool kick : {true, false}) {
    const Zeros memory(sizeof(NodeBarrier));
    auto& barrier = memory.As<NodeBarrier>();
    stop_ = false;
    Sleeper sleeper([&] {
      WaitCounts counts;
      EXPECT_FALSE(barrier.Pass(1, 2, stop_, counts));
      EXPECT_EQ(counts.waits, 1);
    });
    sleeper.AwaitSleep();
    stop_ = true;
    if (kick) barrier.Kick();
    sleeper.Join();
  }
}

TEST_F(NodeBarrierTest, WhatIsOpenIsPassedEvenIfStopped) {
  stop_ = true;
  WaitCounts counts;
  EXPECT_FALSE(barrier_.Pass(1, 2, stop_, counts));
  EXPECT_TRUE(barrier_.Pass(1, 2, stop_, counts));
}

}  // namespace node_barrier_test
}  // namespace horovod_opt
