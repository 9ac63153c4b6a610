#include "horovod_opt/csrc/core/counters/cycle_counters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/core/counters/step_count.h"

namespace horovod_opt {
namespace cycle_counters_test {

using namespace std::chrono_literals;

TEST(CycleCounters, EachAdditionReachesItsCounters) {
  CycleCounters counters;
  counters.AddCycle();
  counters.AddCycle();
  counters.AddSleep(3us);
  counters.AddSleep(4us);
  counters.AddSleep(5us);
  counters.AddWait(70us);
  counters.AddPolls(11, 60us);
  counters.AddData(200us, 4096);
  counters.AddData(300us, 1024);
  counters.SetSteps(6);
  counters.SetSteps(7);
  const CycleCounters::Values values = counters.Read();
  EXPECT_EQ(values.cycles, 2);
  EXPECT_EQ(values.cycles_slept, 3);
  EXPECT_EQ(values.sleep, 12us);
  EXPECT_EQ(values.wait, 70us);
  EXPECT_EQ(values.polls, 11);
  EXPECT_EQ(values.poll_sleep, 60us);
  EXPECT_EQ(values.data, 500us);
  EXPECT_EQ(values.data_bytes, 5120);
  EXPECT_EQ(values.steps, 7);
}

TEST(CycleCounters, ResetStartsAgain) {
  CycleCounters counters;
  counters.AddCycle();
  counters.AddSleep(1us);
  counters.AddWait(1us);
  counters.AddPolls(1, 1us);
  counters.AddData(1us, 1);
  counters.SetSteps(1);
  counters.Reset();
  const CycleCounters::Values values = counters.Read();
  EXPECT_EQ(values.cycles, 0);
  EXPECT_EQ(values.cycles_slept, 0);
  EXPECT_EQ(values.sleep, 0ns);
  EXPECT_EQ(values.wait, 0ns);
  EXPECT_EQ(values.polls, 0);
  EXPECT_EQ(values.poll_sleep, 0ns);
  EXPECT_EQ(values.data, 0ns);
  EXPECT_EQ(values.data_bytes, 0);
  EXPECT_EQ(values.steps, 0);
}

// Under ThreadSanitizer this fails for any counter that is not atomic.
TEST(CycleCounters, ManyReadersSeeEachCounterGrowAndTheFinalValue) {
  constexpr int kAdditions = 20000;
  constexpr std::int64_t kBytes = std::int64_t{1} << 33;  // both halves of the number change
  CycleCounters counters;
  std::atomic<int> ready{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      ++ready;
      CycleCounters::Values before = counters.Read();
      while (!done) {
        const CycleCounters::Values now = counters.Read();
        EXPECT_GE(now.cycles, before.cycles);
        EXPECT_GE(now.cycles_slept, before.cycles_slept);
        EXPECT_GE(now.sleep, before.sleep);
        EXPECT_GE(now.wait, before.wait);
        EXPECT_GE(now.polls, before.polls);
        EXPECT_GE(now.poll_sleep, before.poll_sleep);
        EXPECT_GE(now.data, before.data);
        EXPECT_GE(now.data_bytes, before.data_bytes);
        EXPECT_EQ(now.data_bytes % kBytes, 0);
        before = now;
      }
    });
  }
  while (ready < 3) std::this_thread::yield();
  for (int i = 0; i < kAdditions; ++i) {
    counters.AddCycle();
    counters.AddSleep(1ns);
    counters.AddWait(2ns);
    counters.AddPolls(3, 4ns);
    counters.AddData(5ns, kBytes);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  const CycleCounters::Values values = counters.Read();
  EXPECT_EQ(values.cycles, kAdditions);
  EXPECT_EQ(values.cycles_slept, kAdditions);
  EXPECT_EQ(values.sleep.count(), kAdditions);
  EXPECT_EQ(values.wait.count(), 2 * kAdditions);
  EXPECT_EQ(values.polls, 3 * kAdditions);
  EXPECT_EQ(values.poll_sleep.count(), 4 * kAdditions);
  EXPECT_EQ(values.data.count(), 5 * kAdditions);
  EXPECT_EQ(values.data_bytes, kAdditions * kBytes);
}

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

}  // namespace cycle_counters_test
}  // namespace horovod_opt
