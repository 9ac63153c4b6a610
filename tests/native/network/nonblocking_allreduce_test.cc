// ProgressEngine of several members, begun in another order on each; ThreadSanitizer looks on.
#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <random>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/network/progress_engine.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"
#include "horovod_opt/csrc/core/network/tcp_transport.h"
#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "tests/native/network/loopback.h"
#include "tests/native/reduction/node_ranks.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace nonblocking_allreduce_test {

using Numbers = std::vector<std::int64_t>;
const Arithmetic kLongs{8, &elementwise::Reduce<std::int64_t, elementwise::Sum>, nullptr};
constexpr std::int64_t kNumber = sizeof(std::int64_t);
// The first chunk of an allreduce is doubled, the others go round a ring.
constexpr NonblockingAllreduce::Sizes kSizes{1 << 10, 40 << 10};

// What a member gives is read while it is sent, and never written before all is known.
AllreduceData DataOf(Numbers& values, Numbers& sums) {
  const auto bytes = static_cast<std::int64_t>(values.size()) * kNumber;
  return {bytes,
          kLongs,
          [&values](std::int64_t begin, std::int64_t end, char* to) {
            std::copy_n(reinterpret_cast<const char*>(values.data()) + begin, end - begin, to);
          },
          [&sums](std::int64_t begin, std::int64_t end, const char* from) {
            std::copy_n(from, end - begin, reinterpret_cast<char*>(sums.data()) + begin);
          },
          {},
          {}};
}

constexpr std::int64_t kFactor = 3;

// The sums are multiplied. The numbers lie in memory that messages may use, a copy of them in place
// of the sums, or nowhere; `memory` says which.
AllreduceData ScaledDataOf(Numbers& values, Numbers& sums, int memory) {
  AllreduceData data = DataOf(values, sums);
  data.scale = [](char* from, std::int64_t bytes) {
    auto* const numbers = reinterpret_cast<std::int64_t*>(from);
    std::for_each(numbers, numbers + bytes / kNumber, [](auto& number) { number *= kFactor; });
  };
  if (memory == 0) return data;
  if (memory == 1) sums = values;
  const Numbers& in = memory == 1 ? sums : values;
  data.place = [&in, &sums](std::int64_t begin, std::int64_t) -> AllreduceData::Place {
    return {reinterpret_cast<const char*>(in.data()) + begin,
            reinterpret_cast<char*>(sums.data()) + begin};
  };
  if (memory == 1) {
    data.load = [&sums](std::int64_t begin, std::int64_t end, char* to) {
      std::copy_n(reinterpret_cast<const char*>(sums.data()) + begin, end - begin, to);
    };
  }
  return data;
}

Numbers ValuesOf(int member, int bucket, int iteration, std::int64_t size) {
  Numbers values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), 1000000 * member + 1000 * bucket + iteration);
  return values;
}

Numbers SumsOf(int members, int bucket, int iteration, std::int64_t size) {
  Numbers sums(static_cast<std::size_t>(size), 0);
  for (int member = 0; member < members; ++member) {
    const Numbers values = ValuesOf(member, bucket, iteration, size);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += values[i];
  }
  return sums;
}

// From nothing to several windows full.
std::int64_t SizeOf(int bucket) {
  const std::int64_t chunk = kSizes.chunk / kNumber;
  const std::int64_t sizes[] = {0, 1, 7, 300, 5000, chunk, chunk + 11, 5 * chunk + 1};
  return sizes[bucket % 8];
}

using MakeTransport = std::function<std::unique_ptr<Transport>(int self)>;

constexpr int kBuckets = 8;

void Train(int members, int self, std::unique_ptr<Transport> transport, int iterations) {
  std::minstd_rand random(static_cast<unsigned>(self) + 1);
  std::atomic<int> over{0};
  std::vector<Numbers> values(kBuckets), sums(kBuckets);
  const std::int64_t memory = self % 2 == 0 ? 0 : 64 << 20;  // another one on each
  ProgressEngine engine(std::move(transport), memory, [] {}, [] {});
  for (int iteration = 0; iteration < iterations; ++iteration) {
    std::vector<int> order(kBuckets);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    over = 0;
    for (int bucket : order) {
      values[bucket] = ValuesOf(self, bucket, iteration, SizeOf(bucket));
      sums[bucket].assign(values[bucket].size(), -1);
      const auto tag = static_cast<std::uint64_t>(iteration * kBuckets + bucket);
      engine.Begin(std::make_unique<NonblockingAllreduce>(
          members, self, bucket * NonblockingAllreduce::kChannels, tag,
          ScaledDataOf(values[bucket], sums[bucket], (self + bucket / 3 + iteration) % 3),
          [&over](NonblockingAllreduce::Outcome outcome) {
            EXPECT_EQ(outcome, NonblockingAllreduce::Outcome::kDone);
            ++over;
          },
          kSizes));
      if (random() % 4 == 0) std::this_thread::yield();
    }
    while (over < kBuckets) {
      ASSERT_EQ(engine.Failure(), "");
      std::this_thread::yield();
    }
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      Numbers expected = SumsOf(members, bucket, iteration, SizeOf(bucket));
      for (std::int64_t& number : expected) number *= kFactor;
      ASSERT_EQ(values[bucket], ValuesOf(self, bucket, iteration, SizeOf(bucket)));
      ASSERT_EQ(sums[bucket], expected) << "bucket " << bucket << ", iteration " << iteration;
    }
  }
}

class AllreduceMembers : public testing::TestWithParam<int> {};

TEST_P(AllreduceMembers, AnyOrderOfBeginningComesToItsEnd) {
  Loopback net;
  const int members = GetParam();
  OnRanks(members, [&](int self) {
    auto end = std::make_unique<Loopback::End>(net, self, static_cast<unsigned>(self) + 7);
    Train(members, self, std::move(end), 4);
  });
  EXPECT_EQ(net.Left(), 0u);
}

TEST_P(AllreduceMembers, AlsoIfAMessageIsSentOnlyWhenItIsReceived) {
  Loopback net;
  const int members = GetParam();
  OnRanks(members, [&](int self) {
    auto end = std::make_unique<Loopback::End>(net, self, static_cast<unsigned>(self) + 7);
    end->rendezvous = true;
    Train(members, self, std::move(end), 3);
  });
  EXPECT_EQ(net.Left(), 0u);
}

std::vector<std::unique_ptr<TcpTransport>> ConnectedByTcp(int members) {
  std::vector<std::unique_ptr<TcpRendezvous>> meeting;
  std::vector<std::string> addresses;
  for (int self = 0; self < members; ++self) {
    meeting.push_back(std::make_unique<TcpRendezvous>("127.0.0.1"));
    addresses.push_back(meeting[self]->address());
  }
  for (int self = 0; self < members; ++self) {
    meeting[self]->Call(self, Neighbours(members, self), addresses, "secret", kHang);
  }
  std::vector<std::unique_ptr<TcpTransport>> transports;
  for (int self = 0; self < members; ++self) {
    meeting[self]->Answer(self, Neighbours(members, self), "secret", kHang);
    transports.push_back(std::make_unique<TcpTransport>(meeting[self]->TakeSockets()));
  }
  return transports;
}

TEST_P(AllreduceMembers, OverTcp) {
  auto transports = ConnectedByTcp(GetParam());
  OnRanks(GetParam(), [&](int self) { Train(GetParam(), self, std::move(transports[self]), 4); });
}

// Each rings on what it hears of for the first time: all hear of it, among messages or alone.
TEST_P(AllreduceMembers, ARingReachesAll) {
  constexpr std::uint64_t kSignals = 50;
  const int members = GetParam();
  auto transports = ConnectedByTcp(members);
  std::atomic<int> done{0};
  OnRanks(members, [&](int self) {
    std::atomic<ProgressEngine*> own{nullptr};
    std::atomic<std::uint64_t> greatest{0};
    const auto hear = [&](std::uint64_t number) {
      while (own == nullptr) std::this_thread::yield();
      if (number <= greatest) return;
      greatest = number;
      own.load()->Signal(number);
    };
    ProgressEngine engine(std::move(transports[self]), 0, [] {}, [] {}, hear);
    own = &engine;
    Numbers values = ValuesOf(self, 0, 0, SizeOf(7)), sums(values.size());
    std::atomic<bool> summed{false};
    engine.Begin(std::make_unique<NonblockingAllreduce>(
        members, self, 0, 1, DataOf(values, sums),
        [&](NonblockingAllreduce::Outcome) { summed = true; }, kSizes));
    for (std::uint64_t number = 1; number <= kSignals; ++number) {
      if (static_cast<int>(number) % members == self) engine.Signal(number);
      // What a member signals has not been heard by it, or has come back by now.
      while (greatest < number && static_cast<int>(number) % members != self) {
        ASSERT_EQ(engine.Failure(), "");
        std::this_thread::yield();
      }
    }
    while (!summed) std::this_thread::yield();
    EXPECT_EQ(sums, SumsOf(members, 0, 0, SizeOf(7)));
    ++done;
    while (done < members) std::this_thread::yield();
  });
}

// Nobody waits for a ring: that a neighbour is gone is no failure yet.
TEST(ProgressEngineSignal, AMemberThatIsGoneIsNotTold) {
  auto transports = ConnectedByTcp(3);
  transports[2].reset();
  std::atomic<std::uint64_t> greatest{0};
  ProgressEngine first(std::move(transports[0]), 0, [] {}, [] {});
  ProgressEngine second(
      std::move(transports[1]), 0, [] {}, [] {}, [&](std::uint64_t number) { greatest = number; });
  for (std::uint64_t number = 1; number <= 20; ++number) {
    first.Signal(number);
    while (greatest < number) {
      ASSERT_EQ(first.Failure() + second.Failure(), "");
      std::this_thread::yield();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Members, AllreduceMembers, testing::Values(2, 3, 4, 5, 8, 17));

class TwoMembers : public testing::Test {
 protected:
  // What both are told of an allreduce that they do not mean alike.
  std::vector<NonblockingAllreduce::Outcome> Differ(std::int64_t first, std::int64_t second,
                                                    std::uint64_t tag_of_second, int members = 2) {
    Loopback net;
    std::vector<NonblockingAllreduce::Outcome> outcomes(members);
    OnRanks(members, [&](int self) {
      Loopback::End end(net, self, static_cast<unsigned>(self) + 3);
      BufferPool buffers(0);
      Numbers values(static_cast<std::size_t>(self == 1 ? second : first), 1);
      Numbers sums(values.size(), -1);
      NonblockingAllreduce allreduce(
          members, self, 0, self == 1 ? tag_of_second : 1, DataOf(values, sums),
          [&](NonblockingAllreduce::Outcome outcome) { outcomes[self] = outcome; }, kSizes);
      while (!allreduce.Advance(end, buffers)) end.Progress(Transport::Clock::time_point::max());
      if (outcomes[self] == NonblockingAllreduce::Outcome::kDiffers) {
        EXPECT_EQ(sums, Numbers(values.size(), -1)) << "nothing may be written";
      }
    });
    return outcomes;
  }
  static std::vector<NonblockingAllreduce::Outcome> AllDiffer(int members) {
    return std::vector<NonblockingAllreduce::Outcome>(members,
                                                      NonblockingAllreduce::Outcome::kDiffers);
  }
};

// Invariants 2 and 3.
TEST_F(TwoMembers, AnotherTagIsADifferenceOnAll) {
  EXPECT_EQ(Differ(10, 10, 2), AllDiffer(2));
  EXPECT_EQ(Differ(10000, 10000, 2), AllDiffer(2)) << "in several chunks";
  for (int members : {3, 4, 5, 8}) {
    EXPECT_EQ(Differ(10, 10, 2, members), AllDiffer(members));
    EXPECT_EQ(Differ(10000, 10000, 2, members), AllDiffer(members));
  }
}

TEST_F(TwoMembers, AnotherSizeIsADifference) {
  EXPECT_EQ(Differ(10, 11, 1), AllDiffer(2));
  EXPECT_EQ(Differ(0, 11, 1), AllDiffer(2));
}

// Each member in turn takes it back; nothing is left on the way, so the next one goes well.
TEST(AllreduceTakenBack, AllMembersTakeItBackAndTheNextOneGoesWell) {
  for (int members : {2, 3, 5, 8}) {
    for (int taker = 0; taker < members; ++taker) {
      Loopback net;
      OnRanks(members, [&](int self) {
        Loopback::End end(net, self, static_cast<unsigned>(self) + 3);
        BufferPool buffers(0);
        const auto size = 3 * kSizes.chunk / kNumber;
        Numbers values = ValuesOf(self, 0, 0, size), sums(values.size(), -1);
        auto outcome = NonblockingAllreduce::Outcome::kDone;
        const auto ended = [&](NonblockingAllreduce::Outcome with) { outcome = with; };
        const auto go = [&](NonblockingAllreduce& allreduce) {
          while (!allreduce.Advance(end, buffers))
            end.Progress(Transport::Clock::time_point::max());
        };
        if (self == taker) {
          NonblockingAllreduce allreduce(members, self, 0, size * kNumber, ended, kSizes);
          go(allreduce);
        } else {
          NonblockingAllreduce allreduce(members, self, 0, 1, DataOf(values, sums), ended, kSizes);
          go(allreduce);
        }
        EXPECT_EQ(outcome, NonblockingAllreduce::Outcome::kTakenBack);
        EXPECT_EQ(sums, Numbers(values.size(), -1));
        NonblockingAllreduce next(members, self, 0, 2, DataOf(values, sums), ended, kSizes);
        go(next);
        EXPECT_EQ(outcome, NonblockingAllreduce::Outcome::kDone);
        EXPECT_EQ(sums, SumsOf(members, 0, 0, size));
      });
      EXPECT_EQ(net.Left(), 0u);
    }
  }
}

TEST(ProgressEngineFailure, AMemberThatIsGoneIsAFailure) {
  Loopback net;
  Numbers values(10, 1), sums(10);
  ProgressEngine engine(std::make_unique<Loopback::End>(net, 0, 1), 0, [] {}, [] {});
  engine.Begin(std::make_unique<NonblockingAllreduce>(
      2, 0, 0, 1, DataOf(values, sums), [](NonblockingAllreduce::Outcome) { FAIL(); }, kSizes));
  net.Break();
  while (engine.Failure().empty()) std::this_thread::yield();
  EXPECT_EQ(engine.Failure(), "broken");
}

TEST(ProgressEngineEnd, WhatIsUnderWayIsLeft) {
  Loopback net;
  Numbers values(10, 1), sums(10);
  ProgressEngine engine(std::make_unique<Loopback::End>(net, 0, 1), 0, [] {}, [] {});
  engine.Begin(std::make_unique<NonblockingAllreduce>(
      2, 0, 0, 1, DataOf(values, sums), [](NonblockingAllreduce::Outcome) { FAIL(); }, kSizes));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

TEST(TrialAllreduce, EndsWhereMessagesArrive) {
  for (int members = 2; members <= 4; ++members) {
    Loopback net;
    OnRanks(members, [&](int self) {
      Loopback::End end(net, self, static_cast<unsigned>(self) + 1);
      EXPECT_GT(TryAllreduce(end, members, self, std::chrono::minutes(5)).count(), 0);
      EXPECT_FALSE(end.MustStay());
    });
    EXPECT_EQ(net.Left(), 0u);
  }
}

TEST(TrialAllreduce, SaysThatNothingHasCome) {
  Loopback net;
  Loopback::End end(net, 0, 1);
  try {
    TryAllreduce(end, 2, 0, std::chrono::seconds(1));
    ADD_FAILURE() << "ended without the other one";
  } catch (const std::runtime_error& problem) {
    EXPECT_STREQ(problem.what(),
                 "a sum of 1024 bytes with the other nodes has not come about in 1 s");
  }
}

// As if the other one were of another job, or another version.
TEST(TrialAllreduce, SaysThatASumIsWrong) {
  Loopback net;
  OnRanks(2, [&](int self) {
    Loopback::End end(net, self, static_cast<unsigned>(self) + 1);
    if (self == 0) {
      EXPECT_THROW(TryAllreduce(end, 2, self, std::chrono::minutes(5)), std::runtime_error);
      return;
    }
    BufferPool buffers(0);
    Numbers values(128, 1000), sums(128, 0);
    NonblockingAllreduce tcp_allreduce(
        2, self, 0, 1, DataOf(values, sums), [](NonblockingAllreduce::Outcome) {}, kSizes);
    while (!tcp_allreduce.Advance(end, buffers)) end.Progress(Transport::Clock::time_point::max());
  });
}

}  // namespace nonblocking_allreduce_test
}  // namespace horovod_opt
