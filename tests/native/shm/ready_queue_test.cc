#include "horovod_opt/csrc/core/shm/ready_queue.h"

#include <algorithm>
#include <memory>
#include <random>
#include <stdexcept>

#include "tests/native/shm/node_ranks.h"

namespace horovod_opt {
namespace {

constexpr int kTickets = ReadyLog::kTickets;
constexpr std::uint64_t kEntries = ReadyLog::kEntries;

class ReadyLogTest : public testing::Test {
 protected:
  // The ticket at `position`, -1 if it would have to wait.
  int Look(std::uint64_t position) {
    const std::atomic<bool> stop{true};
    int ticket = -1;
    const bool is_there = log_.Next(position, ticket, stop, counts_);
    EXPECT_EQ(is_there, ticket >= 0);
    return ticket;
  }

  Zeros memory_{ReadyLog::Bytes()};
  ReadyLog& log_ = memory_.As<ReadyLog>();
  std::atomic<bool> go_on_{false};  // a `stop` that is never set
  WaitCounts counts_;
};

TEST_F(ReadyLogTest, ATicketIsInTheLogOnceAllRanksAreReady) {
  log_.Ready(5, 3);
  log_.Ready(7, 3);
  log_.Ready(5, 3);
  EXPECT_EQ(log_.Size(), 0u);
  EXPECT_EQ(Look(0), -1);
  log_.Ready(5, 3);
  EXPECT_EQ(log_.Size(), 1u);
  EXPECT_EQ(Look(0), 5);
  EXPECT_EQ(Look(1), -1);
  log_.Ready(7, 3);
  log_.Ready(7, 3);
  EXPECT_EQ(log_.Size(), 2u);
  EXPECT_EQ(Look(1), 7);
  EXPECT_EQ(Look(0), 5);
}

TEST_F(ReadyLogTest, EveryPassAppendsAgain) {
  constexpr int kRanks = 3;  // no power of two: the count must never start over
  for (std::uint64_t pass = 0; pass < 2 * kEntries; ++pass) {
    for (int rank = 0; rank < kRanks; ++rank) log_.Ready(0, kRanks);
    ASSERT_EQ(log_.Size(), pass + 1);
    ASSERT_EQ(Look(pass), 0);
  }
}

TEST_F(ReadyLogTest, FirstAndLastTicketOnly) {
  log_.Ready(kTickets - 1, 1);
  log_.Ready(0, 1);
  EXPECT_EQ(Look(0), kTickets - 1);
  EXPECT_EQ(Look(1), 0);
  EXPECT_THROW(log_.Ready(-1, 1), std::out_of_range);
  EXPECT_THROW(log_.Ready(kTickets, 1), std::out_of_range);
  EXPECT_EQ(log_.Size(), 2u);
}

// Invariant 2: rank 0 is ahead as far as it can be.
TEST_F(ReadyLogTest, ASlowRankFindsEverythingItHasNotPerformed) {
  for (int ticket = 0; ticket < kTickets; ++ticket) log_.Ready(ticket, 1);  // somewhere in the ring
  std::vector<int> order(kTickets);
  for (int i = 0; i < kTickets; ++i) order[i] = (i * 5) % kTickets;
  for (int ticket : order) log_.Ready(ticket, 1);
  // Rank 0 has performed them all and is ready again, rank 1 has performed none of the second pass.
  for (int ticket = 0; ticket < kTickets; ++ticket) log_.Ready(ticket, 2);
  for (int i = 0; i < kTickets; ++i) {
    ASSERT_EQ(Look(static_cast<std::uint64_t>(kTickets + i)), order[i]);
  }
}

// Invariant 3.
TEST_F(ReadyLogTest, WhatAPlaceHeldBeforeIsNotMistakenForWhatIsToCome) {
  for (std::uint64_t i = 0; i < kEntries; ++i) log_.Ready(static_cast<int>(i % kTickets), 1);
  EXPECT_EQ(Look(kEntries - 1), kTickets - 1);
  EXPECT_EQ(Look(kEntries), -1);
}

TEST_F(ReadyLogTest, AnOverwrittenEntryIsAnError) {
  for (std::uint64_t i = 0; i <= kEntries; ++i) log_.Ready(9, 1);  // breaks invariant 1
  try {
    Look(0);
    FAIL() << "no error";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("entry 0 of the log of ready buckets is overwritten "
                                             "by entry 8192"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(Look(1), 9);
}

TEST_F(ReadyLogTest, CountsOnlyTheWaitsThatSleep) {
  log_.Ready(1, 1);
  int ticket;
  EXPECT_TRUE(log_.Next(0, ticket, go_on_, counts_));
  EXPECT_EQ(counts_.waits, 0);
  EXPECT_EQ(counts_.wakeups, 0);
  Sleeper sleeper([&] { EXPECT_TRUE(log_.Next(1, ticket, go_on_, counts_)); });
  sleeper.AwaitSleep();
  log_.Kick();  // wakes, but there is nothing
  sleeper.AwaitSleep();
  log_.Ready(2, 1);
  sleeper.Join();
  EXPECT_EQ(ticket, 2);
  EXPECT_EQ(counts_.waits, 1);
  EXPECT_GE(counts_.wakeups, 1);
}

TEST_F(ReadyLogTest, StopAndKickEndTheWaitAtAnyMoment) {
  for (int round = 0; round < 2000; ++round) {
    std::atomic<bool> stop{false};
    std::thread waiter([&] {
      int ticket;
      WaitCounts counts;
      EXPECT_FALSE(log_.Next(0, ticket, stop, counts));
    });
    for (int i = 0; i < round % 50; ++i) std::this_thread::yield();
    stop = true;
    log_.Kick();
    waiter.join();
  }
}

// One thread appends at the moment when the other is about to sleep. If the store of an entry could
// be overtaken by the look for sleepers, it would sleep forever.
TEST_F(ReadyLogTest, NoWakeUpIsLost) {
  constexpr std::uint64_t kTurns = 100'000;
  std::atomic<std::uint64_t> turn{0};
  std::thread appender([&] {
    for (std::uint64_t position = 0; position < kTurns; ++position) {
      for (int looks = 1; turn <= position; ++looks) {
        if (looks % 1024 == 0) std::this_thread::yield();
      }
      for (volatile std::uint64_t delay = position % 64; delay > 0;) delay = delay - 1;
      log_.Ready(0, 1);
    }
  });
  for (std::uint64_t position = 0; position < kTurns; ++position) {
    int ticket;
    ++turn;
    ASSERT_TRUE(log_.Next(position, ticket, go_on_, counts_));
  }
  appender.join();
}

TEST_F(ReadyLogTest, OneOfManyConcurrentCallsAppends) {
  constexpr int kRanks = 8;
  std::atomic<int> started{0};
  OnRanks(kRanks, [&](int) {
    for (++started; started < kRanks;) std::this_thread::yield();
    for (int ticket = 0; ticket < kTickets; ++ticket) log_.Ready(ticket, kRanks);
  });
  ASSERT_EQ(log_.Size(), static_cast<std::uint64_t>(kTickets));
  std::vector<int> seen(kTickets);
  for (int i = 0; i < kTickets; ++i) ++seen[Look(static_cast<std::uint64_t>(i))];
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), kTickets);
}

// A rank as it is used: some threads make tickets ready in an order of their own, one performs what
// the log says and so lets them go on. No wait has a timeout: a lost wake-up hangs.
class Rank {
 public:
  static constexpr int kCount = 3;
  static constexpr int kProducers = 2;
  static constexpr int kInUse = 50;
  static constexpr int kPasses = 250;  // the ring is used more than once

  // Invariant 4: written before Ready() by the rank, read after Next() by all, without any lock. Of
  // two passes, as a rank may be ready for the next one while others read.
  using Data = std::vector<std::vector<int>>;

  Rank(ReadyLog& log, std::vector<std::unique_ptr<Rank>>& ranks, unsigned seed)
      : log_(log), ranks_(ranks), seed_(seed), performed_(kInUse) {}

  void Produce(int producer) {
    std::mt19937 random(seed_ * kProducers + producer);
    std::vector<int> tickets;
    for (int ticket = producer; ticket < kInUse; ticket += kProducers) tickets.push_back(ticket);
    for (int pass = 0; pass < kPasses; ++pass) {
      std::shuffle(tickets.begin(), tickets.end(), random);
      for (int ticket : tickets) {
        while (performed_[ticket] < pass) std::this_thread::yield();
        if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
        data_[pass % 2][ticket] = pass;
        log_.Ready(ticket, kCount);
      }
    }
  }

  void Perform() {
    std::mt19937 random(seed_);
    const std::atomic<bool> stop{false};
    WaitCounts counts;
    for (std::uint64_t position = 0; position < kInUse * kPasses; ++position) {
      int ticket;
      ASSERT_TRUE(log_.Next(position, ticket, stop, counts));
      order_.push_back(ticket);
      const int pass = performed_[ticket];
      for (const auto& rank : ranks_) ASSERT_EQ(rank->data_[pass % 2][ticket], pass);
      if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
      ++performed_[ticket];
    }
    EXPECT_GE(counts.wakeups, counts.waits);
  }

  const std::vector<int>& order() const { return order_; }

 private:
  ReadyLog& log_;
  std::vector<std::unique_ptr<Rank>>& ranks_;
  const unsigned seed_;
  std::vector<std::atomic<int>> performed_;
  Data data_ = Data(2, std::vector<int>(kInUse, -1));
  std::vector<int> order_;
};

TEST_F(ReadyLogTest, AllRanksPerformTheSameOrder) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (unsigned rank = 0; rank < Rank::kCount; ++rank) {
    ranks.push_back(std::make_unique<Rank>(log_, ranks, rank));
  }
  constexpr int kThreads = 1 + Rank::kProducers;
  OnRanks(Rank::kCount * kThreads, [&](int thread) {
    Rank& rank = *ranks[thread / kThreads];
    const int role = thread % kThreads;
    role == 0 ? rank.Perform() : rank.Produce(role - 1);
  });
  const std::vector<int>& order = ranks[0]->order();
  ASSERT_EQ(order.size(), static_cast<std::size_t>(Rank::kInUse * Rank::kPasses));
  ASSERT_GT(order.size(), kEntries);
  for (const auto& rank : ranks) EXPECT_EQ(rank->order(), order);
  for (int ticket = 0; ticket < Rank::kInUse; ++ticket) {
    EXPECT_EQ(std::count(order.begin(), order.end(), ticket), Rank::kPasses);
  }
}

}  // namespace
}  // namespace horovod_opt
