#include "horovod_opt/csrc/core/counters/step_count.h"

#include <gtest/gtest.h>

namespace horovod_opt {
namespace {

TEST(StepCount, CountsTheMostFrequentName) {
  StepCount repeats;
  for (int step = 1; step <= 3; ++step) {
    EXPECT_EQ(repeats.Add("gradient.0"), step);
    EXPECT_EQ(repeats.Add("gradient.1"), step);
  }
  EXPECT_EQ(repeats.Add("metric"), 3);
}

TEST(StepCount, NamesThatComeOnceDoNotFillTheMemory) {
  StepCount repeats;
  repeats.Add("gradient");
  for (std::size_t i = 0; i < 2 * StepCount::kNames; ++i) {
    EXPECT_EQ(repeats.Add("once." + std::to_string(i)), 1);
  }
  const std::string late = "once." + std::to_string(2 * StepCount::kNames - 1);
  EXPECT_EQ(repeats.Add(late), 1);  // not among those that are counted
  EXPECT_EQ(repeats.Add("gradient"), 2);
}

TEST(StepCount, ResetStartsAgain) {
  StepCount repeats;
  repeats.Add("gradient");
  repeats.Add("gradient");
  repeats.Reset();
  EXPECT_EQ(repeats.Add("other"), 1);
  EXPECT_EQ(repeats.Add("gradient"), 1);
}

}  // namespace
}  // namespace horovod_opt
