#include "horovod_opt/csrc/core/waiting/backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace horovod_opt {
namespace backoff_test {

using namespace std::chrono_literals;
using std::chrono::microseconds;

std::vector<microseconds> Pauses(Backoff& backoff, int count) {
  std::vector<microseconds> pauses;
  for (int i = 0; i < count; ++i) pauses.push_back(backoff.Pause());
  return pauses;
}

TEST(Backoff, DoublesUpToTheMaximum) {
  Backoff backoff(0, 20us, 500us);
  EXPECT_EQ(Pauses(backoff, 8),
            (std::vector<microseconds>{20us, 40us, 80us, 160us, 320us, 500us, 500us, 500us}));
}

TEST(Backoff, MaximumThatIsAPowerOfTwoTimesTheFirst) {
  Backoff backoff(0, 10us, 40us);
  EXPECT_EQ(Pauses(backoff, 4), (std::vector<microseconds>{10us, 20us, 40us, 40us}));
}

TEST(Backoff, EqualBoundsSleepAConstantTime) {
  Backoff backoff(0, 30us, 30us);
  EXPECT_EQ(Pauses(backoff, 3), (std::vector<microseconds>{30us, 30us, 30us}));
}

TEST(Backoff, YieldsBeforeItSleeps) {
  Backoff backoff(3, 20us, 500us);
  EXPECT_EQ(Pauses(backoff, 3), (std::vector<microseconds>{0us, 0us, 0us}));
  EXPECT_EQ(backoff.Slept(), 0ns);
  EXPECT_EQ(Pauses(backoff, 2), (std::vector<microseconds>{20us, 40us}));
}

TEST(Backoff, ResetBeginsANewWaitAndKeepsTheTotal) {
  Backoff backoff(1, 20us, 500us);
  Pauses(backoff, 4);
  const auto slept = backoff.Slept();
  backoff.Reset();
  EXPECT_EQ(backoff.Slept(), slept);
  EXPECT_EQ(Pauses(backoff, 3), (std::vector<microseconds>{0us, 20us, 40us}));
  EXPECT_GE(backoff.Slept(), slept + 60us);
}

TEST(Backoff, ReallySleepsAndMeasuresIt) {
  Backoff backoff(0, 1000us, 4000us);
  const auto start = std::chrono::steady_clock::now();
  Pauses(backoff, 4);  // 1 + 2 + 4 + 4 ms
  const auto elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_GE(backoff.Slept(), 11ms);
  EXPECT_GE(elapsed, backoff.Slept());
}

TEST(Backoff, HugeMaximumDoesNotOverflow) {
  Backoff backoff(0, 1us, microseconds::max());
  EXPECT_EQ(Pauses(backoff, 5), (std::vector<microseconds>{1us, 2us, 4us, 8us, 16us}));
}

}  // namespace backoff_test
}  // namespace horovod_opt
