#include "horovod_opt/csrc/binding/base/state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

extern "C" {
const char* horovod_opt_abi();
void horovod_opt_configure(const HorovodOptSettings* settings, const char* settings_text,
                           const char* error_text);
const char* horovod_opt_init_error();
int horovod_opt_stats(HorovodOptStats* out);
int horovod_opt_gathered_ranks();
int horovod_opt_gathered_stats(int rank, HorovodOptStats* out);
}

namespace horovod_opt {
namespace state_test {

HorovodOptSettings Settings(int64_t mode) {
  HorovodOptSettings settings{};
  settings.mode = mode;
  settings.gs_interval = settings.nbcs_sleep_min_us = settings.nbcs_sleep_max_us = 1;
  return settings;
}

void SetSize(int size) {
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.size = size;
}

void RunThread(const HorovodOptSettings& settings, int cycles) {
  horovod_opt_configure(&settings, "", "");
  std::thread([cycles] {
    State& state = GlobalState();
    BeginThread(state);
    SetSize(1);
    for (int cycle = 0; cycle < cycles; ++cycle) state.counters.AddCycle();
    EndThread(state);
  }).join();
}

TEST(State, HasNoStatsBeforeTheFirstStart) {
  HorovodOptStats stats;
  EXPECT_EQ(horovod_opt_stats(&stats), -1);
  EXPECT_EQ(horovod_opt_gathered_ranks(), 0);
  EXPECT_EQ(horovod_opt_gathered_stats(0, &stats), -1);
  EXPECT_STREQ(horovod_opt_abi(), HOROVOD_OPT_ABI);
}

TEST(State, KeepsTheStatsOfAThreadThatEndedAndStartsAfreshWithTheNext) {
  RunThread(Settings(HOROVOD_OPT_MODE_GS), 3);
  HorovodOptStats stats;
  ASSERT_EQ(horovod_opt_stats(&stats), 0);
  EXPECT_EQ(stats.cycles, 3);
  EXPECT_EQ(stats.mode, HOROVOD_OPT_MODE_GS);
  const double elapsed = stats.elapsed_seconds;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(horovod_opt_stats(&stats), 0);
  EXPECT_EQ(stats.elapsed_seconds, elapsed);

  RunThread(Settings(HOROVOD_OPT_MODE_NBCS), 1);
  ASSERT_EQ(horovod_opt_stats(&stats), 0);
  EXPECT_EQ(stats.cycles, 1);
  EXPECT_EQ(stats.mode, HOROVOD_OPT_MODE_NBCS);
}

TEST(State, ASecondConfigureDuringARunChangesNothing) {
  const HorovodOptSettings first = Settings(HOROVOD_OPT_MODE_GS);
  horovod_opt_configure(&first, "first", "");
  std::thread([] {
    BeginThread(GlobalState());
    const HorovodOptSettings second = Settings(HOROVOD_OPT_MODE_NBCS);
    horovod_opt_configure(&second, "second", "");
    EndThread(GlobalState());
  }).join();
  EXPECT_EQ(GlobalState().settings_text, "first");
  EXPECT_TRUE(GlobalState().Has(HOROVOD_OPT_MODE_GS));
}

// Under ThreadSanitizer this is the proof of the access rules in state.h; without it, that a
// reader never looks for a thread that has ended.
TEST(State, StatsMayBeReadWhileThreadsStartAndEnd) {
  RunThread(Settings(0), 1);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      HorovodOptStats stats;
      while (!stop) {
        EXPECT_EQ(horovod_opt_stats(&stats), 0);
        EXPECT_GE(stats.elapsed_seconds, 0);
        EXPECT_LE(stats.cycles, 100);
      }
    });
  }
  for (int run = 0; run < 200; ++run) RunThread(Settings(run % 8), 100);
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace state_test
}  // namespace horovod_opt
