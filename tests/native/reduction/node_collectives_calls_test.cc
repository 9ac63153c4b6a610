// The collectives of NodeCollectives other than allreduce, also in turns with it.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"
#include "tests/native/reduction/node_collectives_case.h"

namespace horovod_opt {
namespace node_collectives_calls_test {

using Numbers = std::vector<std::int32_t>;
using Rows = std::vector<std::int64_t>;
using Outcome = NodeCollectives::Outcome;

constexpr std::int64_t kBytes = sizeof(std::int32_t);

const Arithmetic kInts{sizeof(std::int32_t), AddSlowly<std::int32_t>, Scale<std::int32_t>};

// What a rank contributes to the `number`-th call, different for each.
std::int32_t Number(int rank, std::size_t number, std::int64_t i) {
  return static_cast<std::int32_t>(1000 * rank + 17 * static_cast<int>(number) + i % 97);
}

Numbers Contribution(int rank, std::size_t number, std::int64_t size) {
  Numbers numbers;
  for (std::int64_t i = 0; i < size; ++i) numbers.push_back(Number(rank, number, i));
  return numbers;
}

// One call as all ranks see it.
struct Call {
  enum Kind { kAllreduce, kAllgather, kBroadcast, kReduceScatter, kAlltoall, kKinds } kind;
  Rows rows;             // by rank: of an allgather, and of the parts of a reduce-scatter
  std::int64_t numbers;  // in a row; of the others in all
  int root;

  std::int64_t All() const {
    std::int64_t all = 0;
    for (std::int64_t count : rows) all += count;
    return all * numbers;
  }
};

Call RandomCall(std::mt19937& random, int ranks) {
  Call call{static_cast<Call::Kind>(random() % Call::kKinds), {}, 0, 0};
  const unsigned largest = 1u << random() % 9;
  for (int rank = 0; rank < ranks; ++rank) call.rows.push_back(random() % largest);
  call.numbers = random() % 7;
  call.root = static_cast<int>(random()) % ranks;
  if (call.root < 0) call.root += ranks;
  if (call.kind == Call::kAllreduce || call.kind == Call::kBroadcast) {
    call.numbers = random() % (8 * largest);
  }
  return call;
}

// As one rank, and compares what it gets.
void Perform(const Call& call, NodeCollectives& node, int rank, int ranks, std::size_t number,
             const std::atomic<bool>& stop) {
  WaitCounts counts;
  switch (call.kind) {
    case Call::kAllreduce: {
      Numbers own = Contribution(rank, number, call.numbers);
      ASSERT_TRUE(node.Allreduce({{{own.data(), own.data(), call.numbers * kBytes}}, kInts, 1, 1},
                                 number, stop, counts));
      for (std::int64_t i = 0; i < call.numbers; ++i) {
        std::int32_t sum = 0;
        for (int peer = 0; peer < ranks; ++peer) sum += Number(peer, number, i);
        ASSERT_EQ(own[i], sum) << "call " << number;
      }
      return;
    }
    case Call::kAllgather: {
      const Numbers own = Contribution(rank, number, call.rows[rank] * call.numbers);
      Numbers all;
      const auto output = [&](const Rows& rows) -> void* {
        EXPECT_EQ(rows, call.rows);
        all.assign(static_cast<std::size_t>(call.All()), -1);
        return all.data();
      };
      ASSERT_EQ(node.Allgather(own.data(), call.rows[rank], call.numbers * kBytes, output, number,
                               stop, counts),
                Outcome::kDone);
      Numbers expected;
      for (int peer = 0; peer < ranks; ++peer) {
        const Numbers part = Contribution(peer, number, call.rows[peer] * call.numbers);
        expected.insert(expected.end(), part.begin(), part.end());
      }
      ASSERT_EQ(all, expected) << "call " << number;
      return;
    }
    case Call::kBroadcast: {
      Numbers own = Contribution(rank, number, call.numbers);
      ASSERT_EQ(node.Broadcast(own.data(), call.numbers * kBytes, call.root, number, stop, counts),
                Outcome::kDone);
      ASSERT_EQ(own, Contribution(call.root, number, call.numbers)) << "call " << number;
      return;
    }
    case Call::kReduceScatter: {
      const Numbers own = Contribution(rank, number, call.All());
      Rows ends;
      std::int64_t begin = 0;
      for (int peer = 0; peer < ranks; ++peer) {
        const std::int64_t last = ends.empty() ? 0 : ends.back();
        if (peer == rank) begin = last / kBytes;
        ends.push_back(last + call.rows[peer] * call.numbers * kBytes);
      }
      Numbers part(static_cast<std::size_t>(call.rows[rank] * call.numbers), -1);
      ASSERT_EQ(
          node.ReduceScatter(own.data(), part.data(), ends, kInts, 1, 1, number, stop, counts),
          Outcome::kDone);
      for (std::size_t i = 0; i < part.size(); ++i) {
        std::int32_t sum = 0;
        for (int peer = 0; peer < ranks; ++peer) {
          sum += Number(peer, number, begin + static_cast<std::int64_t>(i));
        }
        ASSERT_EQ(part[i], sum) << "call " << number;
      }
      return;
    }
    case Call::kAlltoall: {
      // Piece number a x ranks + b goes from rank a to rank b.
      const auto piece = [&](int from, int to) {
        return Contribution(from * ranks + to, number, call.rows[(from + to) % ranks] * from);
      };
      std::vector<Numbers> given, got;
      PieceCopy::Pieces pieces;
      for (int peer = 0; peer < ranks; ++peer) {
        given.push_back(piece(rank, peer));
        got.emplace_back(piece(peer, rank).size(), -1);
      }
      for (int peer = 0; peer < ranks; ++peer) {
        pieces.push_back({reinterpret_cast<const char*>(given[peer].data()),
                          static_cast<std::int64_t>(given[peer].size()) * kBytes,
                          reinterpret_cast<char*>(got[peer].data()),
                          static_cast<std::int64_t>(got[peer].size()) * kBytes});
      }
      ASSERT_EQ(node.Alltoall(pieces, number, stop, counts), Outcome::kDone);
      for (int peer = 0; peer < ranks; ++peer) {
        ASSERT_EQ(got[peer], piece(peer, rank)) << "call " << number;
      }
      return;
    }
    case Call::kKinds:
      FAIL();
  }
}

class NodeCalls : public testing::TestWithParam<int> {
 protected:
  NodeCalls() : ranks_(GetParam()), node_(ranks_, 1 << 10) {}

  const int ranks_;
  Node node_;
  const std::atomic<bool> never_{false};
};

INSTANTIATE_TEST_SUITE_P(Ranks, NodeCalls, testing::Values(1, 2, 3, 4, 7));

// Each rank at its own pace, small and large ones, with and without rows.
TEST_P(NodeCalls, OfAllKindsBackToBack) {
  std::mt19937 random(5);
  std::vector<Call> calls;
  for (int i = 0; i < 400; ++i) calls.push_back(RandomCall(random, ranks_));
  OnRanks(ranks_, [&](int rank) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      Perform(calls[i], node_[rank], rank, ranks_, i, never_);
    }
  });
}

// Nobody performs a call from which a rank stays away, and all stay in step.
TEST_P(NodeCalls, NoneIsPerformedWithoutAllRanks) {
  OnRanks(ranks_, [&](int rank) {
    WaitCounts counts;
    const std::int64_t size = 1000;  // several chunks
    for (std::size_t number = 0; number < 60; ++number) {
      const int absent = static_cast<int>(number / 3) % ranks_;
      Numbers own = Contribution(rank, number, size), before = own;
      if (rank == absent) {
        ASSERT_TRUE(node_[rank].StayAway(never_, counts));
      } else if (number % 3 == 0) {
        const auto output = [&](const Rows&) -> void* {
          ADD_FAILURE() << "there is a result";
          return nullptr;
        };
        ASSERT_EQ(node_[rank].Allgather(own.data(), size, kBytes, output, number, never_, counts),
                  Outcome::kIncomplete);
      } else if (number % 3 == 1) {
        ASSERT_EQ(node_[rank].Broadcast(own.data(), size * kBytes, absent, number, never_, counts),
                  Outcome::kIncomplete);
      } else {
        const Rows ends(ranks_, size * kBytes);
        ASSERT_EQ(node_[rank].ReduceScatter(own.data(), own.data(), ends, kInts, 1, 1, number,
                                            never_, counts),
                  Outcome::kIncomplete);
      }
      ASSERT_EQ(own, before);
      const Call whole{Call::kAllreduce, Rows(ranks_), 10, 0};
      Perform(whole, node_[rank], rank, ranks_, 1000 + number, never_);
    }
  });
}

// Nothing is written, and all ranks name the same two.
TEST_P(NodeCalls, APieceThatIsNotExpectedIsNamed) {
  OnRanks(ranks_, [&](int rank) {
    Numbers own(5, rank), all(static_cast<std::size_t>(5 * ranks_), -1);
    PieceCopy::Pieces pieces;
    for (int peer = 0; peer < ranks_; ++peer) {
      const bool is_short = rank == 0 && peer == ranks_ - 1;
      pieces.push_back({reinterpret_cast<const char*>(own.data()), (is_short ? 4 : 5) * kBytes,
                        reinterpret_cast<char*>(all.data() + 5 * peer), 5 * kBytes});
    }
    WaitCounts counts;
    try {
      node_[rank].Alltoall(pieces, 1, never_, counts);
      ADD_FAILURE() << "no error";
    } catch (const std::logic_error& error) {
      EXPECT_EQ(error.what(), "rank 0 has 16 bytes for rank " + std::to_string(ranks_ - 1) +
                                  ", which expects 20");
    }
    EXPECT_EQ(all, Numbers(all.size(), -1));
    const Call whole{Call::kAllreduce, Rows(ranks_), 10, 0};
    Perform(whole, node_[rank], rank, ranks_, 2, never_);
  });
}

TEST(NodeCallsScaled, ReduceScatterScalesContributionsAndSums) {
  Node node(2, 1 << 10);
  const std::atomic<bool> never{false};
  OnRanks(2, [&](int rank) {
    WaitCounts counts;
    const std::vector<float> own{1.0f + static_cast<float>(rank), 4, 8};
    std::vector<float> part(rank == 0 ? 2 : 1);
    ASSERT_EQ(node[rank].ReduceScatter(own.data(), part.data(), {8, 12}, kFloats, 0.5, 3, 0, never,
                                       counts),
              Outcome::kDone);
    EXPECT_EQ(part, rank == 0 ? (std::vector<float>{4.5, 12}) : (std::vector<float>{24}));
  });
}

// All say so, and can go on.
TEST(NodeCallsThatDiffer, AreRefusedOnEveryRank) {
  Node node(3, 1 << 10);
  const std::atomic<bool> never{false};
  OnRanks(3, [&](int rank) {
    WaitCounts counts;
    Numbers own(100, rank);
    const auto output = [&](const Rows&) -> void* {
      ADD_FAILURE() << "there is a result";
      return nullptr;
    };
    const std::int64_t row = rank == 2 ? 8 : 4;
    EXPECT_THROW(node[rank].Allgather(own.data(), 10, row, output, 1, never, counts),
                 std::logic_error);
    EXPECT_THROW(node[rank].Allgather(own.data(), 10, 4, output, rank == 1, never, counts),
                 std::logic_error);
    EXPECT_THROW(node[rank].Broadcast(own.data(), 40 * row, 0, 1, never, counts), std::logic_error);
    EXPECT_THROW(node[rank].ReduceScatter(own.data(), own.data(), {4, 8, 8 + row}, kInts, 1, 1, 1,
                                          never, counts),
                 std::logic_error);
    ASSERT_EQ(node[rank].Broadcast(own.data(), 400, 1, 2, never, counts), Outcome::kDone);
    EXPECT_EQ(own, Numbers(100, 1));
  });
}

TEST(NodeCallsThatEnd, StopEndsTheWait) {
  for (int kind = 0; kind < 3; ++kind) {
    Node node(2, 1 << 10);
    std::atomic<bool> stop{false};
    Sleeper waits([&] {
      WaitCounts counts;
      Numbers own(1000);
      const auto output = [&](const Rows&) -> void* { return nullptr; };
      const Outcome outcome =
          kind == 0   ? node[0].Allgather(own.data(), 10, 4, output, 1, stop, counts)
          : kind == 1 ? node[0].Broadcast(own.data(), 4000, 0, 1, stop, counts)
                      : node[0].ReduceScatter(own.data(), own.data(), {2000, 4000}, kInts, 1, 1, 1,
                                              stop, counts);
      EXPECT_EQ(outcome, Outcome::kStopped);
    });
    waits.AwaitSleep();
    stop = true;
    node[0].Kick();
    waits.Join();
  }
}

TEST(NodeCollectives, WhatRanksWriteMostIsApart) {
  constexpr int kRanks = 3;
  const std::size_t bytes = NodeCollectives::Bytes(kRanks, 1000);
  const auto memory = SharedSegment::Private(bytes);
  const char* const data = static_cast<const char*>(memory.data());
  std::vector<std::pair<const char*, const char*>> parts;
  for (int rank = 0; rank < kRanks; ++rank) {
    const NodeCollectives node(memory.data(), bytes, rank, kRanks);
    EXPECT_GE(node.OwnBytes(), 1000);
    for (const char* part : node.OwnMemory()) parts.emplace_back(part, part + node.OwnBytes());
  }
  std::sort(parts.begin(), parts.end());
  ASSERT_EQ(parts.size(), 2u * kRanks);
  EXPECT_GE(parts.front().first, data);
  EXPECT_LE(parts.back().second, data + bytes);
  for (std::size_t i = 1; i < parts.size(); ++i) EXPECT_LE(parts[i - 1].second, parts[i].first);
}

}  // namespace node_collectives_calls_test
}  // namespace horovod_opt
