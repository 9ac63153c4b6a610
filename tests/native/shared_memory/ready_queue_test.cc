#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>

#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {
namespace ready_queue_test {

constexpr int kIds = ReadyQueue::kNumbers;
constexpr std::uint64_t kEntries = ReadyQueue::kEntries;

class ReadyQueueTest : public testing::Test {
 protected:
  // The bucket ID at `position`, -1 if it would have to wait.
  int Look(std::uint64_t position) {
    const std::atomic<bool> stop{true};
    int bucket_id = -1;
    const bool is_there = queue_.Next(position, bucket_id, stop, counts_);
    EXPECT_EQ(is_there, bucket_id >= 0);
    return bucket_id;
  }

  Zeros memory_{ReadyQueue::Bytes()};
  ReadyQueue& queue_ = memory_.As<ReadyQueue>();
  std::atomic<bool> go_on_{false};  // a `stop` that is never set
  WaitCounts counts_;
};

TEST_F(ReadyQueueTest, ABucketIsInTheQueueOnceAllRanksAreReady) {
  queue_.Ready(5, 3);
  queue_.Ready(7, 3);
  queue_.Ready(5, 3);
  EXPECT_EQ(queue_.Size(), 0u);
  EXPECT_EQ(Look(0), -1);
  queue_.Ready(5, 3);
  EXPECT_EQ(queue_.Size(), 1u);
  EXPECT_EQ(Look(0), 5);
  EXPECT_EQ(Look(1), -1);
  queue_.Ready(7, 3);
  queue_.Ready(7, 3);
  EXPECT_EQ(queue_.Size(), 2u);
  EXPECT_EQ(Look(1), 7);
  EXPECT_EQ(Look(0), 5);
}

TEST_F(ReadyQueueTest, EveryIterationAppendsAgain) {
  constexpr int kRanks = 3;  // no power of two: the count must never start over
  for (std::uint64_t iteration = 0; iteration < 2 * kEntries; ++iteration) {
    for (int rank = 0; rank < kRanks; ++rank) queue_.Ready(0, kRanks);
    ASSERT_EQ(queue_.Size(), iteration + 1);
    ASSERT_EQ(Look(iteration), 0);
  }
}

TEST_F(ReadyQueueTest, FirstAndLastBucketIdOnly) {
  queue_.Ready(kIds - 1, 1);
  queue_.Ready(0, 1);
  EXPECT_EQ(Look(0), kIds - 1);
  EXPECT_EQ(Look(1), 0);
  EXPECT_THROW(queue_.Ready(-1, 1), std::out_of_range);
  EXPECT_THROW(queue_.Ready(kIds, 1), std::out_of_range);
  EXPECT_EQ(queue_.Size(), 2u);
}

// Invariant 2: rank 0 is ahead as far as it can be.
TEST_F(ReadyQueueTest, ASlowRankFindsEverythingItHasNotPerformed) {
  for (int bucket_id = 0; bucket_id < kIds; ++bucket_id)
    queue_.Ready(bucket_id, 1);  // somewhere in the ring
  std::vector<int> order(kIds);
  for (int i = 0; i < kIds; ++i) order[i] = (i * 5) % kIds;
  for (int bucket_id : order) queue_.Ready(bucket_id, 1);
  // Rank 0 has performed them all and is ready again, rank 1 has performed none of the second
  // iteration.
  for (int bucket_id = 0; bucket_id < kIds; ++bucket_id) queue_.Ready(bucket_id, 2);
  for (int i = 0; i < kIds; ++i) {
    ASSERT_EQ(Look(static_cast<std::uint64_t>(kIds + i)), order[i]);
  }
}

// Invariant 3.
TEST_F(ReadyQueueTest, WhatAPlaceHeldBeforeIsNotMistakenForWhatIsToCome) {
  for (std::uint64_t i = 0; i < kEntries; ++i) queue_.Ready(static_cast<int>(i % kIds), 1);
  EXPECT_EQ(Look(kEntries - 1), kIds - 1);
  EXPECT_EQ(Look(kEntries), -1);
}

TEST_F(ReadyQueueTest, AnOverwrittenEntryIsAnError) {
  for (std::uint64_t i = 0; i <= kEntries; ++i) queue_.Ready(9, 1);  // breaks invariant 1
  try {
    Look(0);
    FAIL() << "no error";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what())
                  .find("entry 0 of the ready queue was overwritten "
                        "by entry 16384"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(Look(1), 9);
}

TEST_F(ReadyQueueTest, CountsOnlyTheWaitsThatSleep) {
  queue_.Ready(1, 1);
  int bucket_id;
  EXPECT_TRUE(queue_.Next(0, bucket_id, go_on_, counts_));
  EXPECT_EQ(counts_.waits, 0);
  EXPECT_EQ(counts_.wakeups, 0);
  Sleeper sleeper([&] { EXPECT_TRUE(queue_.Next(1, bucket_id, go_on_, counts_)); });
  sleeper.AwaitSleep();
  queue_.Kick();  // wakes, but there is nothing
  sleeper.AwaitSleep();
  queue_.Ready(2, 1);
  sleeper.Join();
  EXPECT_EQ(bucket_id, 2);
  EXPECT_EQ(counts_.waits, 1);
  EXPECT_GE(counts_.wakeups, 1);
}

TEST_F(ReadyQueueTest, StopAndKickEndTheWaitAtAnyMoment) {
  for (int round = 0; round < 2000; ++round) {
    std::atomic<bool> stop{false};
    std::thread waiter([&] {
      int bucket_id;
      WaitCounts counts;
      EXPECT_FALSE(queue_.Next(0, bucket_id, stop, counts));
    });
    // No yield, which takes a time slice where other processes are busy.
    for (volatile int delay = round % 50 * 400; delay > 0;) delay = delay - 1;
    stop = true;
    queue_.Kick();
    waiter.join();
  }
}

// One thread appends at the moment when the other is about to sleep. If the store of an entry could
// be overtaken by the look for sleepers, it would sleep forever.
TEST_F(ReadyQueueTest, NoWakeUpIsLost) {
  constexpr std::uint64_t kTurns = 100'000;
  std::atomic<std::uint64_t> turn{0};
  std::thread appender([&] {
    for (std::uint64_t position = 0; position < kTurns; ++position) {
      for (int looks = 1; turn <= position; ++looks) {
        if (looks % 1024 == 0) std::this_thread::yield();
      }
      for (volatile std::uint64_t delay = position % 64; delay > 0;) delay = delay - 1;
      queue_.Ready(0, 1);
    }
  });
  for (std::uint64_t position = 0; position < kTurns; ++position) {
    int bucket_id;
    ++turn;
    ASSERT_TRUE(queue_.Next(position, bucket_id, go_on_, counts_));
  }
  appender.join();
}

// Invariant 5.
TEST_F(ReadyQueueTest, AReaderIsNotWokenForWhatItsRankSpinsFor) {
  int bucket_id = -1;
  ASSERT_TRUE(queue_.Spin(7, 2));
  Sleeper reader([&] { EXPECT_TRUE(queue_.Next(0, bucket_id, go_on_, counts_, 2)); });
  reader.AwaitSleep();
  queue_.Append(7);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  reader.AwaitSleep();
  queue_.EndSpin(7, 2, true, 0);  // performed: there is nothing to tell
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  reader.AwaitSleep();
  queue_.Append(8);
  reader.Join();
  EXPECT_EQ(bucket_id, 7);
}

TEST_F(ReadyQueueTest, AReaderIsWokenOnceItsRankSpinsNoLonger) {
  for (const bool for_another : {false, true}) {
    const std::uint64_t position = queue_.Size();
    int bucket_id = -1;
    ASSERT_TRUE(queue_.Spin(7, 2));
    Sleeper reader([&] { EXPECT_TRUE(queue_.Next(position, bucket_id, go_on_, counts_, 2)); });
    reader.AwaitSleep();
    if (for_another) {
      queue_.Append(8);
    } else {
      queue_.Append(7);
      queue_.EndSpin(7, 2, false, position);
    }
    reader.Join();
    EXPECT_EQ(bucket_id, for_another ? 8 : 7);
  }
}

TEST_F(ReadyQueueTest, ManyReadersShareABitAndAreAlwaysWoken) {
  EXPECT_TRUE(queue_.Spin(7, 30));
  EXPECT_FALSE(queue_.Spin(7, 31));
  EXPECT_FALSE(queue_.Spin(7, ReadyQueue::kNobody));
  int bucket_id = -1;
  Sleeper reader([&] { EXPECT_TRUE(queue_.Next(0, bucket_id, go_on_, counts_, 31)); });
  reader.AwaitSleep();
  queue_.Append(7);
  reader.Join();
  EXPECT_EQ(bucket_id, 7);
}

// The reader's rank stops spinning at the moment when another one appends. No wait has a timeout.
TEST_F(ReadyQueueTest, NoEntryIsSleptThroughAtTheEndOfASpin) {
  constexpr std::uint64_t kTurns = 20'000;
  std::atomic<std::uint64_t> turn{0}, read{0};
  std::thread appender([&] {
    for (std::uint64_t position = 0; position < kTurns; ++position) {
      while (turn <= position) std::this_thread::yield();
      for (volatile std::uint64_t delay = position % 64; delay > 0;) delay = delay - 1;
      queue_.Append(7);
    }
  });
  std::thread reader([&] {
    for (std::uint64_t position = 0; position < kTurns; ++position) {
      int bucket_id;
      ASSERT_TRUE(queue_.Next(position, bucket_id, go_on_, counts_, 2));
      ++read;
    }
  });
  for (std::uint64_t position = 0; position < kTurns; ++position) {
    queue_.Spin(7, 2);
    ++turn;
    for (volatile std::uint64_t delay = position % 37; delay > 0;) delay = delay - 1;
    queue_.EndSpin(7, 2, false, position);
    while (read <= position) std::this_thread::yield();  // invariant 1
  }
  reader.join();
  appender.join();
}

TEST_F(ReadyQueueTest, OneOfManyConcurrentCallsAppends) {
  constexpr int kRanks = 8;
  std::atomic<int> started{0};
  OnRanks(kRanks, [&](int) {
    for (++started; started < kRanks;) std::this_thread::yield();
    for (int bucket_id = 0; bucket_id < kIds; ++bucket_id) queue_.Ready(bucket_id, kRanks);
  });
  ASSERT_EQ(queue_.Size(), static_cast<std::uint64_t>(kIds));
  std::vector<int> times(kIds);
  for (int i = 0; i < kIds; ++i) ++times[Look(static_cast<std::uint64_t>(i))];
  EXPECT_EQ(std::count(times.begin(), times.end(), 1), kIds);
}

// A rank as it is used: some threads make bucket IDs ready in an order of their own, one performs
// what the ready queue says and so lets them go on. No wait has a timeout: a lost wake-up hangs.
class Rank {
 public:
  static constexpr int kCount = 3;
  static constexpr int kProducers = 2;
  static constexpr int kInUse = 50;
  static constexpr int kIterations = 500;  // the ring is used more than once

  // Invariant 4: written before Ready() by the rank, read after Next() by all, without any lock. Of
  // two iterations, as a rank may be ready for the next one while others read.
  using Data = std::vector<std::vector<int>>;

  Rank(ReadyQueue& queue, std::vector<std::unique_ptr<Rank>>& ranks, unsigned seed)
      : queue_(queue), ranks_(ranks), seed_(seed), performed_(kInUse) {}

  void Produce(int producer) {
    std::mt19937 random(seed_ * kProducers + producer);
    std::vector<int> bucket_ids;
    for (int bucket_id = producer; bucket_id < kInUse; bucket_id += kProducers)
      bucket_ids.push_back(bucket_id);
    for (int iteration = 0; iteration < kIterations; ++iteration) {
      std::shuffle(bucket_ids.begin(), bucket_ids.end(), random);
      for (int bucket_id : bucket_ids) {
        while (performed_[bucket_id] < iteration) std::this_thread::yield();
        if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
        data_[iteration % 2][bucket_id] = iteration;
        queue_.Ready(bucket_id, kCount);
      }
    }
  }

  void Perform() {
    std::mt19937 random(seed_);
    const std::atomic<bool> stop{false};
    WaitCounts counts;
    for (std::uint64_t position = 0; position < kInUse * kIterations; ++position) {
      int bucket_id;
      ASSERT_TRUE(queue_.Next(position, bucket_id, stop, counts));
      order_.push_back(bucket_id);
      const int iteration = performed_[bucket_id];
      for (const auto& rank : ranks_) ASSERT_EQ(rank->data_[iteration % 2][bucket_id], iteration);
      if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
      ++performed_[bucket_id];
    }
    EXPECT_GE(counts.wakeups, counts.waits);
  }

  const std::vector<int>& order() const { return order_; }

 private:
  ReadyQueue& queue_;
  std::vector<std::unique_ptr<Rank>>& ranks_;
  const unsigned seed_;
  std::vector<std::atomic<int>> performed_;
  Data data_ = Data(2, std::vector<int>(kInUse, -1));
  std::vector<int> order_;
};

TEST_F(ReadyQueueTest, AllRanksPerformTheSameOrder) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (unsigned rank = 0; rank < Rank::kCount; ++rank) {
    ranks.push_back(std::make_unique<Rank>(queue_, ranks, rank));
  }
  constexpr int kThreads = 1 + Rank::kProducers;
  OnRanks(Rank::kCount * kThreads, [&](int thread) {
    Rank& rank = *ranks[thread / kThreads];
    const int role = thread % kThreads;
    role == 0 ? rank.Perform() : rank.Produce(role - 1);
  });
  const std::vector<int>& order = ranks[0]->order();
  ASSERT_EQ(order.size(), static_cast<std::size_t>(Rank::kInUse * Rank::kIterations));
  ASSERT_GT(order.size(), kEntries);
  for (const auto& rank : ranks) EXPECT_EQ(rank->order(), order);
  for (int bucket_id = 0; bucket_id < Rank::kInUse; ++bucket_id) {
    EXPECT_EQ(std::count(order.begin(), order.end(), bucket_id), Rank::kIterations);
  }
}

}  // namespace ready_queue_test
}  // namespace horovod_opt
