// Small buckets that threads of several ranks complete; ThreadSanitizer looks on.
#include "horovod_opt/csrc/core/reduction/small_buckets.h"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/core/reduction/gpu_data_wait.h"
#include "tests/native/reduction/small_bucket_ranks.h"

namespace horovod_opt {
namespace small_buckets_test {

// How many ranks, and for how many us their threads spin.
class SmallBucketsRanks : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(SmallBucketsRanks, EveryTensorGetsItsSum) {
  const auto [ranks, spin] = GetParam();
  constexpr int kIterations = 1500;
  SmallBucketNode node(ranks);
  std::vector<std::unique_ptr<SmallBucketRank>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(
        std::make_unique<SmallBucketRank>(node, rank, ranks, std::chrono::microseconds(spin)));
    all[rank]->Learn(CallPlan("alone", 1, 1));
    all[rank]->Learn(CallPlan("pair", 2, 11));  // filled by both threads
    all[rank]->StartThread();
  }
  OnRanks(2 * ranks, [&](int thread) {
    const int rank = thread / 2, half = thread % 2;
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    const int rest = ranks * (ranks - 1) / 2;
    for (int i = 0; i < kIterations; ++i) {
      if (random() % 32 == 0) std::this_thread::yield();
      const int late = random() % 16 == 0 ? 3 : 0;
      const int value = 100 * i + 10 * half;
      ASSERT_EQ(all[rank]->Allreduce(11 + half, value + rank, late), ranks * value + rest);
      if (half == 0) {
        ASSERT_EQ(all[rank]->Allreduce(1, 7 * i + rank, late), ranks * 7 * i + rest);
      }
    }
  });
  int performed = 0;
  for (auto& rank : all) {
    performed += rank->performed();
    rank->Finish();
    EXPECT_TRUE(rank->plans().Close().empty());
  }
  EXPECT_GT(performed, 0);
  if (spin == 0) {
    EXPECT_LE(performed, 2 * kIterations) << "one rank alone performs a bucket ahead";
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SmallBucketsRanks,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values(0, 5, 50, 1000)));

// Invariant 2: the thread has come across nothing for as long as is allowed. Then it has to.
TEST(SmallBuckets, TheThreadIsNeverFartherBehindThanTheQueueHasRoom) {
  SmallBucketNode node(1);
  SmallBucketRank rank(node, 0, 1);
  rank.Learn(CallPlan("p", 1, 1));
  const int most = static_cast<int>(ReadyQueue::kEntries) - ReadyQueue::kIds - 1024;
  for (int i = 0; i < most; ++i) ASSERT_EQ(rank.Allreduce(1, i), i);
  EXPECT_EQ(rank.performed(), most);
  Sleeper framework([&] { EXPECT_EQ(rank.Allreduce(1, -5), -5); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(rank.performed(), most) << "it has to wait for the thread";
  rank.StartThread();
  framework.Join();
  EXPECT_EQ(rank.performed(), most);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rank.Allreduce(1, i), i);
  rank.Finish();
}

// An entry that the thread comes across late belongs to a plan that is gone, and its bucket ID to
// another one.
TEST(SmallBuckets, EntriesOfAForgottenPlanArePassedBy) {
  SmallBucketNode node(1);
  SmallBucketRank rank(node, 0, 1);
  rank.Learn(CallPlan("p", 1, 1));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(rank.Allreduce(1, i), i);
  rank.plans().Remove(CallPlan("p", 1, 1));
  rank.plans().Apply(ByRank({rank.plans().VoteRow(true, false)}));
  EXPECT_TRUE(rank.plans().Reports().empty());
  rank.Learn(CallPlan("q", 2, 11));
  rank.StartThread();
  Sleeper first([&] { EXPECT_EQ(rank.Allreduce(11, 5), 5); });
  EXPECT_EQ(rank.Allreduce(12, 6), 6);
  first.Join();
  rank.Finish();
}

struct BrokenArrival : Arrival {
  bool DataReady() override { throw std::runtime_error("no data"); }
};

// The framework's thread goes on. The thread of the planned path meets the exception again.
TEST(SmallBuckets, AnExceptionOfATensorIsLeftToTheThread) {
  Zeros queue_memory(ReadyQueue::Bytes()), places_memory(BucketPlaces::Bytes(1));
  ReadyQueue& queue = queue_memory.As<ReadyQueue>();
  BucketPlaces places(places_memory.data(), 0, 1);
  PlanTable plans(kBucketIds, [](const auto&) {}, [] {});
  PathCounters counters;
  SmallBuckets small_buckets(
      plans, counters, queue, places, 0, 1,
      {[](const Work&) { ADD_FAILURE() << "it has no contribution"; }, {}, {}, {}});
  plans.UseSmallBucketPath(small_buckets, BucketPlaces::kMemory);
  ASSERT_TRUE(Activate(plans, CallPlan("p", 1, 1)));
  ArrivalPtr arrival = std::make_unique<BrokenArrival>();
  EXPECT_EQ(ArriveAt(plans, 1, arrival, 4, kIntSums), Route::kPlanned);
  ASSERT_EQ(queue.Size(), 1u);
  const Work work = plans.Take(0);
  const std::atomic<bool> never{false};
  EXPECT_THROW(AwaitData(work.arrivals, never), std::runtime_error);
}

// A callback that sends the next tensor does not perform that one, too: the stack would grow.
TEST(SmallBuckets, ACallbackPerformsNoOtherBucket) {
  Zeros queue_memory(ReadyQueue::Bytes()), places_memory(BucketPlaces::Bytes(1));
  ReadyQueue& queue = queue_memory.As<ReadyQueue>();
  BucketPlaces places(places_memory.data(), 0, 1);
  PlanTable plans(kBucketIds, [](const auto&) {}, [] {});
  int depth = 0, deepest = 0, performed = 0;
  const auto call_back = [&](const Work& work, const std::string& error) {
    EXPECT_EQ(error, "");
    deepest = std::max(deepest, ++depth);
    ++performed;
    ArrivalPtr next = std::make_unique<NumberArrival>();
    ArriveAt(plans, work.bucket->first().key == 1 ? 2 : 1, next, 4, kIntSums);
    --depth;
  };
  PathCounters counters;
  const auto nothing = [](const Work&) {};
  SmallBuckets small_buckets(plans, counters, queue, places, 0, 1,
                             {nothing, {}, nothing, call_back});
  plans.UseSmallBucketPath(small_buckets, BucketPlaces::kMemory);
  ASSERT_TRUE(Activate(plans, CallPlan("p", 1, 1)));
  ASSERT_TRUE(Activate(plans, CallPlan("q", 1, 2)));
  auto number = std::make_unique<NumberArrival>();
  number->segment = {&number->value, &number->sum, 4};
  ArrivalPtr first = std::move(number);
  ArriveAt(plans, 1, first, 4, kIntSums);
  EXPECT_EQ(deepest, 1);
  EXPECT_EQ(performed, 1);
  EXPECT_EQ(counters.Read().buckets, 1);
  EXPECT_EQ(counters.Read().bytes, 4);
  EXPECT_EQ(counters.Read().iterations, 0) << "it is a call";
  EXPECT_EQ(queue.Size(), 2u) << "the second one is left to the thread";
}

}  // namespace small_buckets_test
}  // namespace horovod_opt
