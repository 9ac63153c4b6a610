#include "horovod_opt/csrc/core/counters/path_counters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace path_counters_test {

using namespace std::chrono_literals;

void ExpectValues(const PathCounters::Values& values, std::int64_t iterations, std::int64_t buckets,
                  std::int64_t bytes, std::int64_t wakeups, std::chrono::nanoseconds data,
                  std::chrono::nanoseconds latency) {
  EXPECT_EQ(values.iterations, iterations);
  EXPECT_EQ(values.buckets, buckets);
  EXPECT_EQ(values.bytes, bytes);
  EXPECT_EQ(values.wakeups, wakeups);
  EXPECT_EQ(values.data, data);
  EXPECT_EQ(values.latency, latency);
}

TEST(PathCounters, EachAdditionReachesItsCounters) {
  PathCounters counters;
  counters.AddBucket(1000, 3us, 50us);
  counters.AddBucket(24, 4us, 60us);
  counters.AddBucket(1, 1us, 1us);
  counters.AddIteration();
  counters.AddIteration();
  counters.AddWakeups(9);
  counters.AddWakeups(2);
  counters.AddAgreement();
  counters.AddAgreement();
  EXPECT_EQ(counters.Read().agreements, 2);
  ExpectValues(counters.Read(), 2, 3, 1025, 11, 8us, 111us);
}

TEST(PathCounters, ResetStartsAgain) {
  PathCounters counters;
  std::thread([&] {
    counters.BeginThread();
    counters.AddBucket(1, 1us, 1us);
    counters.AddIteration();
    counters.AddWakeups(1);
    counters.AddAgreement();
    GiveUpCore(20);
    counters.EndThread();
  }).join();
  EXPECT_GE(counters.Usage().voluntary_switches, 20);
  counters.Reset();
  ExpectValues(counters.Read(), 0, 0, 0, 0, 0ns, 0ns);
  EXPECT_EQ(counters.Read().agreements, 0);
  EXPECT_EQ(counters.Usage().voluntary_switches, 0);
  EXPECT_EQ(counters.Usage().user + counters.Usage().system, 0ns);
}

TEST(PathCounters, UsageBeforeWhileAndAfterTheThread) {
  PathCounters counters;
  EXPECT_EQ(counters.Usage().voluntary_switches, 0);
  std::promise<void> slept, leave;
  ThreadUsage own;
  std::thread thread([&] {
    counters.BeginThread();
    GiveUpCore(20);
    slept.set_value();
    leave.get_future().wait();
    counters.EndThread();
    own = ReadOwnThreadUsage();
  });
  slept.get_future().wait();
  EXPECT_GE(counters.Usage().voluntary_switches, 20);
  leave.set_value();
  thread.join();
  const ThreadUsage after = counters.Usage();
  EXPECT_GE(after.voluntary_switches, 20);
  EXPECT_LE(after.voluntary_switches, own.voluntary_switches);
  EXPECT_LE(after.user + after.system, own.user + own.system);
}

TEST(PathCounters, UsageIsThatOfAllThreads) {
  PathCounters counters;
  std::promise<void> begun[2], leave[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      counters.BeginThread();
      GiveUpCore(20);
      begun[i].set_value();
      leave[i].get_future().wait();
      counters.EndThread();
    });
  }
  for (std::promise<void>& promise : begun) promise.get_future().wait();
  std::int64_t before = 40;
  for (int i : {1, 0}) {
    EXPECT_GE(counters.Usage().voluntary_switches, before);
    before = counters.Usage().voluntary_switches;
    leave[i].set_value();
    threads[i].join();
  }
  const ThreadUsage after = counters.Usage();
  EXPECT_GE(after.voluntary_switches, before);
  EXPECT_EQ(counters.Usage().voluntary_switches, after.voluntary_switches);
}

TEST(PathCounters, SteadyRoundsAreThoseSinceTheFirstIterationAfterTheLastVote) {
  PathCounters counters;
  const auto rounds_then_iteration = [&](int count) {
    for (int i = 0; i < count; ++i) counters.AddRound();
    counters.AddIteration();
    return counters.Read().steady_rounds;
  };
  counters.AddVote();
  EXPECT_EQ(rounds_then_iteration(2), 0);
  EXPECT_EQ(rounds_then_iteration(4), 4);
  EXPECT_EQ(rounds_then_iteration(1), 5);
  counters.AddRound();
  EXPECT_EQ(counters.Read().steady_rounds, 5) << "only until the last iteration";
  counters.AddVote();
  EXPECT_EQ(rounds_then_iteration(3), 0);
  EXPECT_EQ(rounds_then_iteration(3), 3);
  EXPECT_EQ(counters.Read().rounds, 14);
  counters.Reset();
  EXPECT_EQ(counters.Read().steady_rounds, 0);
  EXPECT_EQ(rounds_then_iteration(1), 0);
  EXPECT_EQ(counters.Read().rounds, 1);
}

// Under ThreadSanitizer this fails for any counter that is not atomic, and for a reader that
// looks for a thread that ends.
TEST(PathCounters, ReadersAtAnyTime) {
  constexpr int kBuckets = 20000;
  constexpr std::int64_t kBytes = std::int64_t{1} << 33;  // both halves of the number change
  PathCounters counters;
  std::atomic<int> ready{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      PathCounters::Values before = counters.Read();
      for (++ready; !done;) {
        const PathCounters::Values now = counters.Read();
        EXPECT_GE(now.iterations, before.iterations);
        EXPECT_GE(now.buckets, before.buckets);
        EXPECT_GE(now.wakeups, before.wakeups);
        EXPECT_GE(now.rounds, before.rounds);
        EXPECT_GE(now.agreements, before.agreements);
        EXPECT_GE(now.data, before.data);
        EXPECT_GE(now.latency, before.latency);
        EXPECT_EQ(now.bytes % kBytes, 0);
        counters.Usage();
        before = now;
      }
    });
  }
  while (ready < 2) std::this_thread::yield();
  std::thread background([&] {
    for (int i = 0; i < kBuckets; ++i) {
      counters.AddRound();
      if (i % 100 == 0) counters.AddVote();
    }
  });
  std::thread order([&] {
    counters.BeginThread();
    for (int i = 0; i < kBuckets; ++i) counters.AddAgreement();
    counters.EndThread();
  });
  std::thread([&] {
    counters.BeginThread();
    for (int i = 1; i <= kBuckets; ++i) {
      counters.AddBucket(kBytes, 2ns, 3ns);
      if (i % 10 == 0) counters.AddIteration();
      counters.AddWakeups(1);
    }
    counters.EndThread();
  }).join();
  background.join();
  order.join();
  done = true;
  for (std::thread& reader : readers) reader.join();
  ExpectValues(counters.Read(), kBuckets / 10, kBuckets, kBuckets * kBytes, kBuckets,
               std::chrono::nanoseconds(2 * kBuckets), std::chrono::nanoseconds(3 * kBuckets));
  EXPECT_EQ(counters.Read().rounds, kBuckets);
  EXPECT_EQ(counters.Read().agreements, kBuckets);
}

}  // namespace path_counters_test
}  // namespace horovod_opt
