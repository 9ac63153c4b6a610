#include "horovod_opt/csrc/core/waiting/global_sleep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace horovod_opt {
namespace global_sleep_test {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(GlobalSleep, AsksTheRanksEveryIntervalthCycleBeginningWithTheFirst) {
  for (int interval : {1, 2, 3, 10}) {
    GlobalSleep pacing(interval);
    int calls = 0;
    for (int cycle = 0; cycle < 3 * interval; ++cycle) {
      const int before = calls;
      const nanoseconds sleep = pacing.Next(nanoseconds(500), [&](nanoseconds local) {
        ++calls;
        return local - nanoseconds(100);
      });
      const bool global = cycle % interval == 0;
      EXPECT_EQ(calls - before, global ? 1 : 0) << "interval " << interval << " cycle " << cycle;
      EXPECT_EQ(sleep.count(), global ? 400 : 500) << "interval " << interval << " cycle " << cycle;
    }
  }
}

TEST(GlobalSleep, NeverNegativeNorOffersTheRanksANegativeTime) {
  GlobalSleep pacing(2);
  nanoseconds offered{-1};
  const auto min = [&](nanoseconds local) { return offered = local; };
  EXPECT_EQ(pacing.Next(nanoseconds(-5), min).count(), 0);
  EXPECT_EQ(offered.count(), 0);
  EXPECT_EQ(pacing.Next(nanoseconds(-5), min).count(), 0);
}

// Two ranks as in dissertation 6.2.4: per cycle each sleeps what is left of the cycle time, then
// meets the other in a negotiation that takes `kWork`. Rank 1 oversleeps once, in cycle 0.
// Returns how long rank 0 waits for rank 1 in each cycle, which is what upstream spins. No
// pacing: each sleeps its own.
constexpr microseconds kCycleTime{1000};
constexpr microseconds kWork{100};

std::vector<nanoseconds> WaitsAfterOneOversleep(std::vector<GlobalSleep> pacing, int cycles) {
  std::array<nanoseconds, 2> previous = {kWork, kWork};  // what the previous cycle took
  std::vector<nanoseconds> waits;
  for (int cycle = 0; cycle < cycles; ++cycle) {
    std::array<nanoseconds, 2> sleep;
    const auto local = [&](int rank) { return kCycleTime - previous[rank]; };
    for (int rank = 0; rank < 2; ++rank) {
      sleep[rank] = std::max(local(rank), nanoseconds(0));
      if (pacing.empty()) continue;
      sleep[rank] = pacing[rank].Next(local(rank), [&](nanoseconds mine) {
        return std::min(mine, std::max(local(1 - rank), nanoseconds(0)));
      });
    }
    if (cycle == 0) sleep[1] += 5 * kCycleTime;
    const nanoseconds met = std::max(sleep[0], sleep[1]);
    for (int rank = 0; rank < 2; ++rank) previous[rank] = met - sleep[rank] + kWork;
    waits.push_back(met - sleep[0]);
  }
  return waits;
}

TEST(GlobalSleep, OneOversleepLastsForeverWithoutIt) {
  const auto waits = WaitsAfterOneOversleep({}, 100);
  EXPECT_EQ(waits[0], 5 * kCycleTime);
  for (std::size_t cycle = 1; cycle < waits.size(); ++cycle) {
    EXPECT_EQ(waits[cycle], kCycleTime - kWork) << "cycle " << cycle;
  }
}

TEST(GlobalSleep, OneOversleepEndsWithTheNextGlobalCycle) {
  for (int interval : {1, 4, 10}) {
    const auto waits = WaitsAfterOneOversleep({GlobalSleep(interval), GlobalSleep(interval)}, 100);
    EXPECT_EQ(waits[0], 5 * kCycleTime);
    for (int cycle = 1; cycle < 100; ++cycle) {
      EXPECT_EQ(waits[cycle], cycle < interval ? kCycleTime - kWork : microseconds(0))
          << "interval " << interval << " cycle " << cycle;
    }
  }
}

}  // namespace global_sleep_test
}  // namespace horovod_opt
