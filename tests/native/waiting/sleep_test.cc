#include "horovod_opt/csrc/core/waiting/sleep.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>

namespace horovod_opt {
namespace sleep_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST(SleepFor, AtLeastTheLengthAndSaysHowLong) {
  for (auto length : {1us, 100us, 3000us}) {
    const auto start = Clock::now();
    const auto slept = SleepFor(length);
    const auto elapsed = Clock::now() - start;
    EXPECT_GE(slept, length);
    EXPECT_GE(elapsed, slept);
    EXPECT_LT(slept, length + 1s);
  }
}

TEST(SleepFor, CarriesOverTheSecond) {
  // Within 1 s, wherever the clock stands now, some end lies beyond a full second.
  for (int i = 0; i < 11; ++i) {
    const auto slept = SleepFor(100ms);
    ASSERT_GE(slept, 100ms);
    ASSERT_LT(slept, 1s);
  }
}

TEST(SleepFor, NothingToSleep) {
  EXPECT_EQ(SleepFor(0ns), 0ns);
  EXPECT_EQ(SleepFor(-1s), 0ns);
}

std::atomic<int> signals{0};

TEST(SleepFor, SignalsNeitherShortenNorStretchIt) {
  struct sigaction count = {};
  count.sa_handler = [](int) { ++signals; };  // no SA_RESTART, which would not help here either
  ASSERT_EQ(sigaction(SIGALRM, &count, nullptr), 0);
  const itimerval every_2_ms = {{0, 2000}, {0, 2000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every_2_ms, nullptr), 0);
  const auto slept = SleepFor(100ms);
  const itimerval off = {};
  setitimer(ITIMER_REAL, &off, nullptr);
  EXPECT_GE(signals, 1);  // ThreadSanitizer passes on only some of the 50
  EXPECT_GE(slept, 100ms);
  EXPECT_LT(slept, 1s);
}

}  // namespace sleep_test
}  // namespace horovod_opt
