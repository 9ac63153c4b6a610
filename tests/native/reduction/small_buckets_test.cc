// Ranks as threads, each with its plans, a thread of the planned path and framework threads, over
// one memory; ThreadSanitizer looks on.
#include "horovod_opt/csrc/core/reduction/small_buckets.h"

#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/reduction/elementwise.h"
#include "tests/native/plan/sample_plans.h"
#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {
namespace {

using namespace std::chrono_literals;

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
  Rank(Node& node, int rank, int ranks, std::chrono::nanoseconds spin = std::chrono::nanoseconds(0))
      : queue_(node.queue.As<ReadyQueue>()),
        places_(node.places.data(), rank, ranks),
        rank_(rank),
        small_buckets_(queue_, places_, rank, ranks,
                       {&Rank::ReductionOf, &Rank::TagOf,
                        [this](Work work, const auto& done) {
                          ++performed_;
                          Reduce(work);
                          done();
                          CallBack(work);
                        }},
                       spin) {
    plans_.UseSmallBucketPath(small_buckets_, BucketPlaces::kMemory);
  }

  PlanTable& plans() { return plans_; }
  int performed() const { return performed_; }
  // By the thread of the planned path.
  int takes() const { return takes_; }

  void StartThread() {
    thread_ = std::thread([this] {
      WaitCounts waits;
      int bucket_id = 0;
      for (std::uint64_t position = 0; queue_.Next(position, bucket_id, end_, waits, rank_);) {
        small_buckets_.CameTo(++position);
        Work work = plans_.Take(bucket_id);
        if (work.slots.empty()) continue;
        ++takes_;
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
    small_buckets_.Close();
    end_ = true;
    queue_.Kick();
    thread_.join();
  }

  void Send(std::int64_t key, int value) { Send(key, value, 0, never_done_); }
  // A tensor is in a bucket, and the thread that sent it spins, if it does.
  void AwaitTensor() const {
    while (plans_.PendingTensors().empty()) std::this_thread::yield();
    std::this_thread::sleep_for(20ms);
  }

  // Sends a tensor and waits for its sum; -1 if it is not planned.
  int Allreduce(std::int64_t key, int value, int late_looks = 0) {
    std::atomic<bool> done{false};
    if (!Send(key, value, late_looks, done)) return -1;
    while (!done.load()) std::this_thread::yield();
    return sums_[key].load();
  }

 private:
  bool Send(std::int64_t key, int value, int late_looks, std::atomic<bool>& done) {
    auto number = std::make_unique<Number>();
    number->value = value;
    number->late_looks = late_looks;
    number->done = &done;
    ArrivalPtr arrival = std::move(number);
    return plans_.Arrive(key, 4, {}, "", arrival) == Route::kPlanned;
  }

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
    ASSERT_TRUE(small_buckets_.Reduce(
        work, TagOf(*work.plan, work.bucket_id, work.iteration, work.slots), never_, waits));
    plans_.MarkReduced(work);
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
  std::atomic<int> performed_{0}, takes_{0};
  std::atomic<bool> end_{false};
  const std::atomic<bool> never_{false};
  std::atomic<bool> never_done_{false};
  std::map<std::string, std::int64_t> keys_;  // of a plan's first slot
  std::array<std::atomic<int>, 64> sums_{};   // by key
  PlanTable plans_{kIds, [](const auto&) { ADD_FAILURE() << "a bucket without a place"; }, [] {}};
  SmallBuckets small_buckets_;
  std::thread thread_;
};

Plan Call(const std::string& hash, int slots, std::int64_t first_key) {
  std::vector<int> bucket(slots);
  for (int i = 0; i < slots; ++i) bucket[i] = i;
  Plan plan = MakePlan(hash, slots, {bucket}, first_key);
  plan.is_call = true;
  return plan;
}

constexpr auto kLong = 30s;

// How many ranks, and for how many us their threads spin.
class SmallBucketsRanks : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(SmallBucketsRanks, EveryTensorGetsItsSum) {
  const auto [ranks, spin] = GetParam();
  constexpr int kIterations = 1500;
  Node node(ranks);
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(std::make_unique<Rank>(node, rank, ranks, std::chrono::microseconds(spin)));
    all[rank]->Learn(Call("alone", 1, 1));
    all[rank]->Learn(Call("pair", 2, 11));  // filled by both threads
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

// Without the thread of any rank.
TEST(SmallBuckets, WhoSpinsPerformsTheBucket) {
  constexpr int kIterations = 5;
  Node node(2);
  Rank first(node, 0, 2, kLong), second(node, 1, 2, kLong);
  for (Rank* rank : {&first, &second}) rank->Learn(Call("p", 1, 1));
  OnRanks(2, [&](int rank) {
    for (int i = 1; i <= kIterations; ++i) {
      ASSERT_EQ((rank == 0 ? first : second).Allreduce(1, i + rank), 2 * i + 1);
    }
  });
  for (Rank* rank : {&first, &second}) {
    EXPECT_EQ(rank->performed(), kIterations);
    rank->StartThread();
    rank->Finish();
    EXPECT_EQ(rank->takes(), 0) << "it passes by what has been performed";
  }
}

// Invariant 4: the entry comes while a thread spins, and nobody is woken. But the other rank has
// not contributed, as its data is late, and the spin is in vain.
TEST(SmallBuckets, WhoSpinsInVainWakesTheThread) {
  Node node(2);
  Rank first(node, 0, 2, 200ms), last(node, 1, 2);
  for (Rank* rank : {&first, &last}) rank->Learn(Call("p", 1, 1));
  first.StartThread();
  Sleeper spinner([&] { EXPECT_EQ(first.Allreduce(1, 1), 11); });
  first.AwaitTensor();
  Sleeper late([&] { EXPECT_EQ(last.Allreduce(1, 10, 1), 11); });
  last.AwaitTensor();
  std::this_thread::sleep_for(300ms);
  last.StartThread();  // contributes
  spinner.Join();
  late.Join();
  EXPECT_EQ(first.performed(), 0);
  EXPECT_EQ(first.takes(), 1);
  for (Rank* rank : {&first, &last}) rank->Finish();
}

// Invariant 5: another bucket wakes the thread, which performs the first one, too.
TEST(SmallBuckets, WhoSpinsFindsThatTheThreadHasTakenTheBucket) {
  Node node(2);
  Rank first(node, 0, 2, kLong), last(node, 1, 2);
  for (Rank* rank : {&first, &last}) {
    rank->Learn(Call("p", 1, 1));
    rank->Learn(Call("q", 1, 2));
  }
  first.StartThread();
  Sleeper spinner([&] { EXPECT_EQ(first.Allreduce(1, 1), 11); });
  first.AwaitTensor();
  Sleeper late([&] { EXPECT_EQ(last.Allreduce(1, 10, 1), 11); });
  last.AwaitTensor();
  Sleeper second([&] { EXPECT_EQ(first.Allreduce(2, 2), 22); });
  Sleeper wakes([&] { EXPECT_EQ(last.Allreduce(2, 20, 1), 22); });
  while (first.takes() == 0) std::this_thread::yield();
  last.StartThread();  // contributes
  for (Sleeper* thread : {&spinner, &late, &second, &wakes}) thread->Join();
  EXPECT_EQ(first.performed(), 0);
  EXPECT_EQ(first.takes(), 2);
  for (Rank* rank : {&first, &last}) rank->Finish();
}

// Others come soon, and have when Spin() returns.
class AllComeSoon : public SmallBucketPath {
 public:
  AllComeSoon(PlanTable& plans, std::atomic<int>& spun) : plans_(plans), spun_(spun) {}
  std::int64_t PlaceBytes(std::int64_t) const override { return 64; }
  Readiness Announce(const CompleteBucket&, bool) override { return Readiness::kSoon; }
  bool MayPerform(const CompleteBucket&) override { return false; }
  void Append(int, bool) override {}
  void Perform(Work work) override {
    ++performed_;
    plans_.MarkReduced(work);
  }
  bool Spin(const Turn&) override {
    ++spun_;
    return true;
  }
  void EndSpin(const Turn&, bool, bool) override {}
  int performed() const { return performed_; }

 private:
  PlanTable& plans_;
  std::atomic<int>& spun_;
  std::atomic<int> performed_{0};
};

// Invariant 5: the thread finds the entry just when the one that has spun takes the bucket.
TEST(SmallBuckets, OneOfTwoThreadsTakesTheBucket) {
  constexpr int kRounds = 20000;
  std::atomic<int> spun{0}, takes{0}, rounds{0};
  PlanTable plans(kIds, [](const auto&) {}, [] {});
  AllComeSoon small_buckets(plans, spun);
  plans.UseSmallBucketPath(small_buckets, BucketPlaces::kMemory);
  ASSERT_TRUE(plans.Learn(Call("p", 1, 1)));
  std::thread planned([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (spun < round) continue;
      const Work work = plans.Take(0);
      if (!work.slots.empty()) {
        ++takes;
        plans.MarkReduced(work);
      }
      rounds = round;
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    ArrivalPtr arrival = std::make_unique<Number>();
    ASSERT_EQ(plans.Arrive(1, 4, {}, "", arrival), Route::kPlanned);
    while (rounds < round) std::this_thread::yield();
  }
  planned.join();
  EXPECT_EQ(takes + small_buckets.performed(), kRounds);
}

// Invariant 5: a vote ends the plan meanwhile, and takes the bucket back.
TEST(SmallBuckets, WhoSpinsFindsThatAVoteHasTakenTheBucketBack) {
  Node node(2);
  Rank first(node, 0, 2, 300ms), last(node, 1, 2);
  for (Rank* rank : {&first, &last}) rank->Learn(Call("p", 1, 1));
  Sleeper spinner([&] { first.Send(1, 1); });
  first.AwaitTensor();
  first.plans().Reject("p", "for a test");
  const auto rows =
      ByRank({first.plans().VoteRow(true, false), last.plans().VoteRow(false, false)});
  EXPECT_EQ(first.plans().Apply(rows).to_negotiate.size(), 1u);
  EXPECT_TRUE(last.plans().Apply(rows).to_negotiate.empty());
  spinner.Join();
  EXPECT_EQ(first.performed(), 0);
}

// Invariant 2: the thread has come across nothing for as long as is allowed. Then it has to.
TEST(SmallBuckets, TheThreadIsNeverFartherBehindThanTheQueueHasRoom) {
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
TEST(SmallBuckets, EntriesOfAForgottenPlanArePassedBy) {
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
TEST(SmallBuckets, AnExceptionOfATensorIsLeftToTheThread) {
  Zeros queue_memory(ReadyQueue::Bytes()), places_memory(BucketPlaces::Bytes(1));
  ReadyQueue& queue = queue_memory.As<ReadyQueue>();
  BucketPlaces places(places_memory.data(), 0, 1);
  PlanTable plans(kIds, [](const auto&) {}, [] {});
  SmallBuckets small_buckets(
      queue, places, 0, 1,
      {[](const Plan&, const std::vector<int>&, const auto&) -> BucketReduction {
         throw std::runtime_error("no data");
       },
       [](const Plan&, int, std::uint64_t, const auto&) { return std::uint64_t{1}; },
       [](Work, const auto&) { ADD_FAILURE() << "it has no contribution"; }});
  plans.UseSmallBucketPath(small_buckets, BucketPlaces::kMemory);
  ASSERT_TRUE(plans.Learn(Call("p", 1, 1)));
  ArrivalPtr arrival = std::make_unique<Number>();
  EXPECT_EQ(plans.Arrive(1, 4, {}, "", arrival), Route::kPlanned);
  ASSERT_EQ(queue.Size(), 1u);
  const Work work = plans.Take(0);
  WaitCounts waits;
  const std::atomic<bool> never{false};
  EXPECT_THROW(small_buckets.Reduce(work, 1, never, waits), std::runtime_error);
}

// A callback that sends the next tensor does not perform that one, too: the stack would grow.
TEST(SmallBuckets, ACallbackPerformsNoOtherBucket) {
  Zeros queue_memory(ReadyQueue::Bytes()), places_memory(BucketPlaces::Bytes(1));
  ReadyQueue& queue = queue_memory.As<ReadyQueue>();
  BucketPlaces places(places_memory.data(), 0, 1);
  PlanTable plans(kIds, [](const auto&) {}, [] {});
  int depth = 0, deepest = 0, performed = 0;
  SmallBuckets small_buckets(
      queue, places, 0, 1,
      {[](const Plan&, const std::vector<int>&, const auto&) {
         return BucketReduction({}, kInts, 1, 1);
       },
       [](const Plan&, int, std::uint64_t, const auto&) { return std::uint64_t{1}; },
       [&](Work work, const auto& done) {
         deepest = std::max(deepest, ++depth);
         ++performed;
         plans.MarkReduced(work);
         done();
         ArrivalPtr next = std::make_unique<Number>();
         plans.Arrive(work.plan->slots[0].key == 1 ? 2 : 1, 4, {}, "", next);
         --depth;
       }});
  plans.UseSmallBucketPath(small_buckets, BucketPlaces::kMemory);
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
