#include "horovod_opt/csrc/core/waiting/backoff.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace horovod_opt {
namespace backoff_poll_test {

using namespace std::chrono_literals;

TEST(PollUntil, DoneAtOnceNeedsOneTestAndNoPause) {
  Backoff backoff(0, 1000us, 1000us);
  const PollResult result = PollUntil([] { return true; }, backoff);
  EXPECT_EQ(result.tests, 1);
  EXPECT_EQ(result.slept, 0ns);
}

TEST(PollUntil, PausesOncePerFailedTest) {
  Backoff backoff(2, 1000us, 2000us);
  int calls = 0;
  const PollResult result = PollUntil([&] { return ++calls == 6; }, backoff);
  EXPECT_EQ(calls, 6);
  EXPECT_EQ(result.tests, 6);
  EXPECT_GE(result.slept, 5ms);  // 2 yields, then 1 + 2 + 2 ms
  EXPECT_EQ(result.slept, backoff.Slept());
}

TEST(PollUntil, EveryWaitStartsAfreshAndCountsItsOwnSleep) {
  Backoff backoff(1, 2000us, 64000us);
  for (int wait = 0; wait < 3; ++wait) {
    const auto slept_before = backoff.Slept();
    int calls = 0;
    const PollResult result = PollUntil([&] { return ++calls == 3; }, backoff);
    EXPECT_EQ(result.tests, 3);
    EXPECT_EQ(result.slept, backoff.Slept() - slept_before);
    EXPECT_GE(result.slept, 2ms);
    EXPECT_EQ(backoff.Pause(), 4000us);  // one yield and one sleep behind it, in every wait
  }
}

TEST(PollUntil, SeesWhatAnotherThreadDid) {
  Backoff backoff(0, 20us, 500us);
  constexpr int kLooks = 30;
  std::atomic<bool> arrived{false};
  std::atomic<int> looks{0};
  std::thread peer([&] {
    while (looks < kLooks) std::this_thread::yield();
    arrived = true;
  });
  const auto look = [&] {
    ++looks;
    return arrived.load();
  };
  const PollResult result = PollUntil(look, backoff);
  peer.join();
  EXPECT_GE(result.tests, kLooks);
  EXPECT_GE(result.slept, 10ms);  // 29 pauses: 20 + 40 + 80 + 160 + 320 us, and 24 of 500 us
}

TEST(PollUntil, PassesOnWhatTheTestThrows) {
  Backoff backoff(0, 1us, 1us);
  EXPECT_THROW(PollUntil([]() -> bool { throw std::runtime_error("peer lost"); }, backoff),
               std::runtime_error);
}

}  // namespace backoff_poll_test
}  // namespace horovod_opt
