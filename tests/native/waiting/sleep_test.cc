#include "horovod_opt/csrc/core/waiting/sleep.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <thread>

#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace sleep_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A thread may be late when it wakes, but not whenever it does.
TEST(SleepFor, AtLeastTheLengthAndSaysHowLong) {
  for (auto length : {1us, 100us, 3000us}) {
    EXPECT_TRUE(Await([&] {
      const auto start = Clock::now();
      const auto slept = SleepFor(length);
      const auto elapsed = Clock::now() - start;
      EXPECT_GE(slept, length);
      EXPECT_GE(elapsed, slept);
      return slept < length + 1s;
    }));
  }
}

TEST(SleepFor, CarriesOverTheSecond) {
  const auto in_second = [] { return Clock::now().time_since_epoch() % 1s; };
  EXPECT_TRUE(Await([&] {
    std::this_thread::sleep_for((1950ms - in_second()) % 1s);
    if (in_second() < 900ms) return false;
    const auto slept = SleepFor(100ms);
    EXPECT_GE(slept, 100ms);
    return slept < 1s;
  }));
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
  EXPECT_TRUE(Await([] {
    const auto slept = SleepFor(100ms);
    EXPECT_GE(slept, 100ms);
    return slept < 1s;
  }));
  const itimerval off = {};
  setitimer(ITIMER_REAL, &off, nullptr);
  EXPECT_GE(signals, 1);  // ThreadSanitizer passes on only some of the 50
}

}  // namespace sleep_test
}  // namespace horovod_opt
