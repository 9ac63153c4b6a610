#include "horovod_opt/csrc/core/waiting/event_count.h"

#include "tests/native/reduction/node_ranks.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace event_count_test {

using namespace std::chrono_literals;

class EventCountTest : public testing::Test {
 protected:
  Zeros memory_{sizeof(EventCount)};
  EventCount& event_ = memory_.As<EventCount>();
  std::atomic<bool> stop_{false};
  WaitCounts counts_;
};

TEST_F(EventCountTest, WhatHoldsAlreadyIsNotWaitedForEvenIfStopped) {
  stop_ = true;
  EXPECT_TRUE(event_.Await([] { return true; }, stop_, counts_));
  EXPECT_FALSE(event_.Await([] { return false; }, stop_, counts_));
  EXPECT_EQ(counts_.waits, 0);
}

// The condition comes true right after the waiter has looked at it for the first, the second, ...
// time, when the notifier finds no sleeper, one that is about to sleep, ... Nobody else would ever
// wake it.
TEST_F(EventCountTest, ANotificationIsNotLostWhicheverLookItFollows) {
  for (int last_look = 1; last_look < 3; ++last_look) {
    bool holds = false;
    int looks = 0;
    const auto look = [&] {
      const bool value = holds;
      if (++looks == last_look) {
        holds = true;
        event_.Notify();
      }
      return value;
    };
    EXPECT_TRUE(event_.Await(look, stop_, counts_));
    EXPECT_EQ(looks, last_look + 1);
  }
  EXPECT_EQ(counts_.waits, 0);
}

TEST_F(EventCountTest, StopRightAfterTheLookIsSeen) {
  int looks = 0;
  const auto look = [&] {
    if (++looks == 2) {
      stop_ = true;
      event_.Kick();
    }
    return false;
  };
  EXPECT_FALSE(event_.Await(look, stop_, counts_));
  EXPECT_EQ(looks, 2);
}

TEST_F(EventCountTest, LooksAgainAfterTheLongestSleep) {
  int looks = 0;
  EXPECT_TRUE(event_.Await([&] { return ++looks == 5; }, stop_, counts_, 1ms));
  EXPECT_EQ(counts_.waits, 1);
  EXPECT_EQ(counts_.wakeups, 3);  // one look before the waiter is counted, one after, then one each
}

TEST_F(EventCountTest, EndsAtTheDeadline) {
  const auto never = [] { return false; };
  // On a busy machine a short one may have passed before anybody sleeps.
  for (auto length = 50ms; counts_.waits == 0 && length < kHang; length *= 2) {
    const auto deadline = EventCount::Clock::now() + length;
    EXPECT_FALSE(event_.Await(never, stop_, counts_, futex::kForever, deadline));
    EXPECT_GE(EventCount::Clock::now(), deadline);
    EXPECT_FALSE(event_.Await(never, stop_, counts_, futex::kForever, deadline));
  }
  EXPECT_EQ(counts_.waits, 1);
}

}  // namespace event_count_test
}  // namespace horovod_opt
