// Threads that spin for a small bucket (invariants 4 and 5); ThreadSanitizer looks on.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/core/reduction/small_buckets.h"
#include "tests/native/reduction/small_bucket_ranks.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace small_buckets_spin_test {

using namespace std::chrono_literals;

constexpr auto kLong = 1h;  // longer than any test

// Without the thread of any rank.
TEST(SmallBucketsSpin, WhoSpinsPerformsTheBucket) {
  constexpr int kIterations = 5;
  SmallBucketNode node(2);
  SmallBucketRank first(node, 0, 2, kLong), second(node, 1, 2, kLong);
  for (SmallBucketRank* rank : {&first, &second}) rank->Learn(CallPlan("p", 1, 1));
  OnRanks(2, [&](int rank) {
    for (int i = 1; i <= kIterations; ++i) {
      ASSERT_EQ((rank == 0 ? first : second).Allreduce(1, i + rank), 2 * i + 1);
    }
  });
  for (SmallBucketRank* rank : {&first, &second}) {
    EXPECT_EQ(rank->performed(), kIterations);
    rank->StartThread();
    rank->Finish();
    EXPECT_EQ(rank->takes(), 0) << "it passes by what has been performed";
  }
}

// Invariant 4: the thread of the last rank would come across the entries if it were woken.
TEST(SmallBucketsSpin, TheLastRankPerformsTheBucketAndWakesNobody) {
  constexpr int kIterations = 20;
  SmallBucketNode node(2);
  SmallBucketRank first(node, 0, 2, kLong), last(node, 1, 2, kLong);
  for (SmallBucketRank* rank : {&first, &last}) rank->Learn(CallPlan("p", 1, 1));
  WaitCounts waits;
  std::atomic<bool> end{false};
  std::atomic<int> entries{0};
  Sleeper reader([&] {
    int bucket_id = 0;
    while (node.queue.As<ReadyQueue>().Next(entries, bucket_id, end, waits, 1)) ++entries;
  });
  reader.AwaitSleep();
  for (int i = 1; i <= kIterations; ++i) {
    Sleeper spinner([&] { EXPECT_EQ(first.Allreduce(1, i), 2 * i + 1); });
    first.AwaitTensor();
    EXPECT_EQ(last.Allreduce(1, i + 1), 2 * i + 1);
    spinner.Join();
  }
  EXPECT_EQ(last.performed(), kIterations);
  EXPECT_EQ(entries, 0) << "the thread has been woken";
  end = true;
  node.queue.As<ReadyQueue>().Kick();
  reader.Join();
  EXPECT_EQ(entries, kIterations);
}

// Invariant 4: the entry comes while a thread spins, and nobody is woken. But the other rank has
// not contributed, as its data is late, and the spin is in vain.
TEST(SmallBucketsSpin, WhoSpinsInVainWakesTheThread) {
  SmallBucketNode node(2);
  SmallBucketRank first(node, 0, 2, 200ms), last(node, 1, 2);
  for (SmallBucketRank* rank : {&first, &last}) rank->Learn(CallPlan("p", 1, 1));
  first.StartThread();
  Sleeper spinner([&] { EXPECT_EQ(first.Allreduce(1, 1), 11); });
  first.AwaitTensor();
  Sleeper late([&] { EXPECT_EQ(last.Allreduce(1, 10, 1), 11); });
  node.AwaitEntries(1);
  while (first.takes() == 0) std::this_thread::yield();
  last.StartThread();  // contributes
  spinner.Join();
  late.Join();
  EXPECT_EQ(first.performed(), 0);
  EXPECT_EQ(first.takes(), 1);
  for (SmallBucketRank* rank : {&first, &last}) rank->Finish();
}

// Invariant 5: another bucket wakes the thread, which performs the first one, too.
TEST(SmallBucketsSpin, WhoSpinsFindsThatTheThreadHasTakenTheBucket) {
  SmallBucketNode node(2);
  SmallBucketRank first(node, 0, 2, kLong), last(node, 1, 2);
  for (SmallBucketRank* rank : {&first, &last}) {
    rank->Learn(CallPlan("p", 1, 1));
    rank->Learn(CallPlan("q", 1, 2));
  }
  first.StartThread();
  Sleeper spinner([&] { EXPECT_EQ(first.Allreduce(1, 1), 11); });
  first.AwaitTensor();
  Sleeper late([&] { EXPECT_EQ(last.Allreduce(1, 10, 1), 11); });
  node.AwaitEntries(1);
  Sleeper second([&] { EXPECT_EQ(first.Allreduce(2, 2), 22); });
  Sleeper wakes([&] { EXPECT_EQ(last.Allreduce(2, 20, 1), 22); });
  while (first.takes() == 0) std::this_thread::yield();
  last.StartThread();  // contributes
  for (Sleeper* thread : {&spinner, &late, &second, &wakes}) thread->Join();
  EXPECT_EQ(first.performed(), 0);
  EXPECT_EQ(first.takes(), 2);
  for (SmallBucketRank* rank : {&first, &last}) rank->Finish();
}

// Invariant 3: the framework takes its time to go on with the sum, and meanwhile Horovod is shut
// down: the memory is unmapped, and what has performed the bucket deleted. (AddressSanitizer sees
// whoever comes back to that; a thread that comes back to the memory changes it.)
TEST(SmallBucketsSpin, NobodyIsInTheMemoryOnceThePathIsClosed) {
  for (const bool spins : {true, false}) {
    SmallBucketNode node(2);
    auto slow = std::make_unique<SmallBucketRank>(node, 0, 2, spins ? kLong : 0ns);
    auto other = std::make_unique<SmallBucketRank>(node, 1, 2, spins ? 0ns : kLong);
    for (SmallBucketRank* rank : {slow.get(), other.get()}) rank->Learn(CallPlan("p", 1, 1));
    std::atomic<bool> called_back{false}, goes_on{false};
    slow->AfterCallback([&] {
      called_back = true;
      while (!goes_on) std::this_thread::sleep_for(1ms);
    });
    SmallBucketRank& first = spins ? *slow : *other;
    Sleeper spinner([&] { first.Send(1, 1); });
    first.AwaitTensor();
    Sleeper last([&] { (spins ? *other : *slow).Send(1, 2); });
    while (!called_back) std::this_thread::sleep_for(1ms);
    slow->Close();
    (spins ? last : spinner).Join();  // in its own callback it is not slow
    const std::vector<char> before = node.Bytes();
    goes_on = true;
    (spins ? spinner : last).Join();
    EXPECT_EQ(node.Bytes(), before) << (spins ? "the thread has spun" : "it came last");
  }
}

// Others come soon, and have when Spin() returns.
class AllComeSoon : public SmallBucketPath {
 public:
  AllComeSoon(PlanTable& plans, std::atomic<int>& spun) : plans_(plans), spun_(spun) {}
  std::int64_t PlaceBytes(std::int64_t) const override { return 64; }
  Readiness Announce(const Work&, bool) override { return Readiness::kSoon; }
  bool MayPerform(const Work&) override { return false; }
  void Append(int, bool) override {}
  void Perform(Work work, bool) override {
    ++performed_;
    plans_.MarkReduced(work);
  }
  bool Spin(const Turn&) override {
    ++spun_;
    return true;
  }
  void EndSpin(const Turn&, bool) override {}
  int performed() const { return performed_; }

 private:
  PlanTable& plans_;
  std::atomic<int>& spun_;
  std::atomic<int> performed_{0};
};

// Invariant 5: the thread finds the entry just when the one that has spun takes the bucket.
TEST(SmallBucketsSpin, OneOfTwoThreadsTakesTheBucket) {
  constexpr int kRounds = 20000;
  std::atomic<int> spun{0}, takes{0}, rounds{0};
  PlanTable plans(kBucketIds, [](const auto&) {}, [] {});
  AllComeSoon small_buckets(plans, spun);
  plans.UseSmallBucketPath(small_buckets, BucketPlaces::kMemory);
  ASSERT_TRUE(Activate(plans, CallPlan("p", 1, 1)));
  // The other one may wait for this core, which a yield would give to other processes.
  const auto await = [](const std::atomic<int>& count, int least) {
    for (int looks = 1; count < least; ++looks) {
      if (looks % 1024 == 0) std::this_thread::sleep_for(1us);
    }
  };
  std::thread planned([&] {
    for (int round = 1; round <= kRounds; ++round) {
      await(spun, round);
      const Work work = plans.Take(0);
      if (!work.IsEmpty()) {
        ++takes;
        plans.MarkReduced(work);
      }
      rounds = round;
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    ArrivalPtr arrival = std::make_unique<NumberArrival>();
    ASSERT_EQ(ArriveAt(plans, 1, arrival, 4, kIntSums), Route::kPlanned);
    await(rounds, round);
  }
  planned.join();
  EXPECT_EQ(takes + small_buckets.performed(), kRounds);
}

// Invariant 5: a vote ends the plan meanwhile, and takes the bucket back.
TEST(SmallBucketsSpin, WhoSpinsFindsThatAVoteHasTakenTheBucketBack) {
  SmallBucketNode node(2);
  SmallBucketRank first(node, 0, 2, 300ms), last(node, 1, 2);
  for (SmallBucketRank* rank : {&first, &last}) rank->Learn(CallPlan("p", 1, 1));
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

TEST(SmallBucketsState, TellsOfThreadsThatSpinAndHowFarTheQueueIsRead) {
  SmallBucketNode node(2);
  SmallBucketRank first(node, 0, 2, kHang), second(node, 1, 2, kHang);
  for (SmallBucketRank* rank : {&first, &second}) {
    rank->Learn(CallPlan("alone", 1, 1));
    rank->StartThread();
  }
  EXPECT_EQ(first.State(), "ready queue: 0 entries, the thread has read 0\n");
  std::thread framework([&] { EXPECT_EQ(first.Allreduce(1, 5), 11); });
  EXPECT_TRUE(Await([&] {
    return first.State() ==
           "ready queue: 0 entries, the thread has read 0\n"
           "small buckets: framework threads that spin for one or perform it: 1\n";
  }));
  EXPECT_EQ(second.Allreduce(1, 6), 11);
  framework.join();
  for (SmallBucketRank* rank : {&first, &second}) {
    EXPECT_TRUE(Await([&] {
      return rank->State() == "ready queue: 1 entries, the thread has read 1\n" ||
             rank->State() == "ready queue: 1 entries, the thread has read 0\n";
    }));
    rank->Finish();
  }
}

}  // namespace small_buckets_spin_test
}  // namespace horovod_opt
