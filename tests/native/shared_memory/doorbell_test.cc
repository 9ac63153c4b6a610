#include "horovod_opt/csrc/core/shared_memory/doorbell.h"

#include <gtest/gtest.h>

#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {
namespace doorbell_test {

using namespace std::chrono_literals;

class DoorbellTest : public testing::Test {
 protected:
  Zeros memory_{sizeof(Doorbell)};
  Doorbell& doorbell_ = memory_.As<Doorbell>();
  std::atomic<bool> stop_{false};
};

TEST_F(DoorbellTest, ARoundAndAllBeforeItAreWanted) {
  EXPECT_FALSE(doorbell_.Wait(1, 0ns, stop_));
  doorbell_.Signal(3);
  EXPECT_TRUE(doorbell_.Wait(1, 0ns, stop_));
  EXPECT_TRUE(doorbell_.Wait(3, futex::kForever, stop_));
  EXPECT_FALSE(doorbell_.Wait(4, 0ns, stop_));
}

TEST_F(DoorbellTest, TheFirstOneToAskIsToldSo) {
  EXPECT_TRUE(doorbell_.Signal(1));
  EXPECT_FALSE(doorbell_.Signal(1));
  EXPECT_TRUE(doorbell_.Signal(3));
  EXPECT_FALSE(doorbell_.Signal(2));
}

TEST_F(DoorbellTest, NeverGoesBack) {
  doorbell_.Signal(5);
  doorbell_.Signal(2);
  EXPECT_TRUE(doorbell_.Wait(5, 0ns, stop_));
}

TEST_F(DoorbellTest, ZeroTimeoutOnlyLooksEvenIfStopped) {
  stop_ = true;
  EXPECT_FALSE(doorbell_.Wait(1, 0ns, stop_));
  doorbell_.Signal(1);
  EXPECT_TRUE(doorbell_.Wait(1, 0ns, stop_));
}

TEST_F(DoorbellTest, WaitsTheWholeTimeoutThoughItWakesInBetween) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(doorbell_.Wait(1, 250ms, stop_));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 250ms);
}

TEST_F(DoorbellTest, RingWakesAllWhoSleep) {
  const auto wait = [&] { EXPECT_TRUE(doorbell_.Wait(1, futex::kForever, stop_)); };
  Sleeper first(wait);
  Sleeper second(wait);
  first.AwaitSleep();
  second.AwaitSleep();
  doorbell_.Signal(1);
  first.Join();
  second.Join();
}

TEST_F(DoorbellTest, StopIsNoticedAfterAKickAndWithoutOne) {
  for (const bool kick : {true, false}) {
    stop_ = false;
    Sleeper sleeper([&] { EXPECT_FALSE(doorbell_.Wait(1, futex::kForever, stop_)); });
    sleeper.AwaitSleep();
    stop_ = true;
    if (kick) doorbell_.Kick();
    sleeper.Join();
  }
}

// Each rank waits for a round that another one rings, in turn, and all the others ring old rounds.
TEST_F(DoorbellTest, NoRingIsLost) {
  constexpr int kRanks = 4;
  constexpr std::uint64_t kRounds = 5000;
  OnRanks(kRanks, [&](int rank) {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      doorbell_.Signal(round % kRanks == static_cast<std::uint64_t>(rank) ? round : round - 1);
      ASSERT_TRUE(doorbell_.Wait(round, futex::kForever, stop_));
    }
  });
  EXPECT_FALSE(doorbell_.Wait(kRounds + 1, 0ns, stop_));
}

}  // namespace doorbell_test
}  // namespace horovod_opt
