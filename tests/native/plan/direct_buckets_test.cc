// Ranks as threads, each with its plans, a thread of the planned path and framework threads, over
// one memory; ThreadSanitizer looks on.
#include "horovod_opt/csrc/core/plan/direct_buckets.h"

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/shm/elementwise.h"
#include "tests/native/plan/sample_plans.h"
#include "tests/native/shm/node_ranks.h"

namespace horovod_opt {
namespace {

constexpr int kIds = 32;
const Arithmetic kInts{4, &elementwise::Reduce<std::int32_t, elementwise::Sum>, nullptr};

struct Number : Arrival {
  bool DataReady() override { return late_looks-- <= 0; }
  int value = 0, sum = 0;
  int late_looks = 0;  // that see no data yet
  std::atomic<bool>* done = nullptr;
};

// The memory of a group.
struct Node {
  explicit Node(int ranks) : places(BucketPlaces::Bytes(ranks)) {}
  Zeros queue{ReadyQueue::Bytes()};
  Zeros places;
};

class Rank {
 public:
  Rank(Node& node, int rank, int ranks)
      : queue_(node.queue.As<ReadyQueue>()),
        places_(node.places.data(), rank, ranks),
        rank_(rank),
        direct_(queue_, places_, rank, ranks,
                {&Rank::ReductionOf, &Rank::TagOf, [this](Work work, const auto& done) {
                   ++performed_;
                   Reduce(work);
                   done();
                   CallBack(work);
                 }}) {
    plans_.UseDirectPath(direct_, BucketPlaces::kMemory);
  }

  PlanTable& plans() { return plans_; }
  int performed() const { return performed_; }

  void StartThread() {
    thread_ = std::thread([this] {
      WaitCounts waits;
      int bucket_id = 0;
      for (std::uint64_t position = 0; queue_.Next(position, bucket_id, end_, waits, rank_);) {
        direct_.CameTo(++position);
        Work work = plans_.Take(bucket_id);
        if (work.slots.empty()) continue;
        for (const ArrivalPtr& arrival : work.arrivals) {
          while (!arrival->DataReady()) std::this_thread::yield();
        }
        Reduce(work);
        CallBack(work);
      }
    });
  }

  void Finish() {
    plans_.Finish();
    direct_.Close();
    end_ = true;
    queue_.Kick();
    thread_.join();
  }

  // Sends a tensor and waits for its sum; -1 if it is not planned.
  int Allreduce(std::int64_t key, int value, int late_looks = 0) {
    std::atomic<bool> done{false};
    auto number = std::make_unique<Number>();
    Number& own = *number;
    own.value = value;
    own.late_looks = late_looks;
    own.done = &done;
    ArrivalPtr arrival = std::move(number);
    if (plans_.Arrive(key, 4, {}, "", arrival) != Route::kPlanned) return -1;
    while (!done.load()) std::this_thread::yield();
    return sums_[key].load();
  }

 private:
  static BucketReduction ReductionOf(const Plan&, const std::vector<int>&,
                                     const std::vector<ArrivalPtr>& arrivals) {
    std::vector<Segment> segments;
    for (const ArrivalPtr& arrival : arrivals) {
      auto& number = static_cast<Number&>(*arrival);
      segments.push_back({&number.value, &number.sum, 4});
    }
    return {segments, kInts, 1, 1};
  }

  static std::uint64_t TagOf(const Plan&, int bucket_id, std::uint64_t iteration,
                             const std::vector<int>&) {
    return iteration * kIds + static_cast<std::uint64_t>(bucket_id);
  }

  void Reduce(const Work& work) {
    WaitCounts waits;
    ASSERT_TRUE(direct_.Reduce(work, TagOf(*work.plan, work.bucket_id, work.iteration, work.slots),
                               never_, waits));
    plans_.Finished(work);
  }

  void CallBack(Work& work) {
    for (std::size_t i = 0; i < work.slots.size(); ++i) {
      auto& number = static_cast<Number&>(*work.arrivals[i]);
      sums_[keys_[work.plan->hash] + work.slots[i]] = number.sum;
      number.done->store(true);
    }
  }

 public:
  void Learn(const Plan& plan) {
    keys_[plan.hash] = plan.slots[0].key;
    ASSERT_TRUE(plans_.Learn(plan));
  }

 private:
  ReadyQueue& queue_;
  BucketPlaces places_;
  const int rank_;
  std::atomic<int> performed_{0};
  std::atomic<bool> end_{false};
  const std::atomic<bool> never_{false};
  std::map<std::string, std::int64_t> keys_;  // of a plan's first slot
  std::array<std::atomic<int>, 64> sums_{};   // by key
  PlanTable plans_{kIds, [](const auto&) { ADD_FAILURE() << "a bucket without a place"; }, [] {}};
  DirectBuckets direct_;
  std::thread thread_;
};

Plan Call(const std::string& hash, int slots, std::int64_t first_key) {
  std::vector<int> bucket(slots);
  for (int i = 0; i < slots; ++i) bucket[i] = i;
  Plan plan = MakePlan(hash, slots, {bucket}, first_key);
  plan.is_call = true;
  return plan;
}

class DirectBucketsRanks : public testing::TestWithParam<int> {};

TEST_P(DirectBucketsRanks, EveryTensorGetsItsSum) {
  const int ranks = GetParam();
  constexpr int kIterations = 1500;
  Node node(ranks);
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(std::make_unique<Rank>(node, rank, ranks));
    all[rank]->Learn(Call("alone", 1, 1));
    all[rank]->Learn(Call("pair", 2, 11));  // filled by both threads
    all[rank]->StartThread();
  }
  OnRanks(2 * ranks, [&](int thread) {
    const int rank = thread / 2, half = thread % 2;
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    const int others = ranks * (ranks - 1) / 2;
    for (int i = 0; i < kIterations; ++i) {
      if (random() % 32 == 0) std::this_thread::yield();
      const int late = random() % 16 == 0 ? 3 : 0;
      const int value = 100 * i + 10 * half;
      ASSERT_EQ(all[rank]->Allreduce(11 + half, value + rank, late), ranks * value + others);
      if (half == 0) {
        ASSERT_EQ(all[rank]->Allreduce(1, 7 * i + rank, late), ranks * 7 * i + others);
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
  EXPECT_LE(performed, 2 * kIterations) << "one rank alone performs a bucket ahead";
}

INSTANTIATE_TEST_SUITE_P(Ranks, DirectBucketsRanks, testing::Values(1, 2, 3, 4));

// Invariant 2: the thread has come across nothing for as long as is allowed. Then it has to.
TEST(DirectBuckets, TheThreadIsNeverFartherBehindThanTheQueueHasRoom) {
  Node node(1);
  Rank rank(node, 0, 1);
  rank.Learn(Call("p", 1, 1));
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
TEST(DirectBuckets, EntriesOfAForgottenPlanArePassedBy) {
  Node node(1);
  Rank rank(node, 0, 1);
  rank.Learn(Call("p", 1, 1));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(rank.Allreduce(1, i), i);
  rank.plans().Remove(Call("p", 1, 1));
  rank.plans().Apply(ByRank({rank.plans().VoteRow(true, false)}));
  EXPECT_TRUE(rank.plans().Reports().empty());
  rank.Learn(Call("q", 2, 11));
  rank.StartThread();
  Sleeper first([&] { EXPECT_EQ(rank.Allreduce(11, 5), 5); });
  EXPECT_EQ(rank.Allreduce(12, 6), 6);
  first.Join();
  rank.Finish();
}

// The framework's thread goes on. The thread of the planned path meets the exception again.
TEST(DirectBuckets, AnExceptionOfATensorIsLeftToTheThread) {
  Zeros queue_memory(ReadyQueue::Bytes()), places_memory(BucketPlaces::Bytes(1));
  ReadyQueue& queue = queue_memory.As<ReadyQueue>();
  BucketPlaces places(places_memory.data(), 0, 1);
  PlanTable plans(
      kIds, [](const auto&) {}, [] {});
  DirectBuckets direct(
      queue, places, 0, 1,
      {[](const Plan&, const std::vector<int>&, const auto&) -> BucketReduction {
         throw std::runtime_error("no data");
       },
       [](const Plan&, int, std::uint64_t, const auto&) { return std::uint64_t{1}; },
       [](Work, const auto&) { ADD_FAILURE() << "it has no contribution"; }});
  plans.UseDirectPath(direct, BucketPlaces::kMemory);
  ASSERT_TRUE(plans.Learn(Call("p", 1, 1)));
  ArrivalPtr arrival = std::make_unique<Number>();
  EXPECT_EQ(plans.Arrive(1, 4, {}, "", arrival), Route::kPlanned);
  ASSERT_EQ(queue.Size(), 1u);
  const Work work = plans.Take(0);
  WaitCounts waits;
  const std::atomic<bool> never{false};
  EXPECT_THROW(direct.Reduce(work, 1, never, waits), std::runtime_error);
}

// A callback that sends the next tensor does not perform that one, too: the stack would grow.
TEST(DirectBuckets, ACallbackPerformsNoOtherBucket) {
  Zeros queue_memory(ReadyQueue::Bytes()), places_memory(BucketPlaces::Bytes(1));
  ReadyQueue& queue = queue_memory.As<ReadyQueue>();
  BucketPlaces places(places_memory.data(), 0, 1);
  PlanTable plans(
      kIds, [](const auto&) {}, [] {});
  int depth = 0, deepest = 0, performed = 0;
  DirectBuckets direct(
      queue, places, 0, 1,
      {[](const Plan&, const std::vector<int>&, const auto&) {
         return BucketReduction({}, kInts, 1, 1);
       },
       [](const Plan&, int, std::uint64_t, const auto&) { return std::uint64_t{1}; },
       [&](Work work, const auto& done) {
         deepest = std::max(deepest, ++depth);
         ++performed;
         plans.Finished(work);
         done();
         ArrivalPtr next = std::make_unique<Number>();
         plans.Arrive(work.plan->slots[0].key == 1 ? 2 : 1, 4, {}, "", next);
         --depth;
       }});
  plans.UseDirectPath(direct, BucketPlaces::kMemory);
  ASSERT_TRUE(plans.Learn(Call("p", 1, 1)));
  ASSERT_TRUE(plans.Learn(Call("q", 1, 2)));
  ArrivalPtr first = std::make_unique<Number>();
  plans.Arrive(1, 4, {}, "", first);
  EXPECT_EQ(deepest, 1);
  EXPECT_EQ(performed, 1);
  EXPECT_EQ(queue.Size(), 2u) << "the second one is left to the thread";
}

}  // namespace
}  // namespace horovod_opt
