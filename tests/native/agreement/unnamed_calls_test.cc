#include "horovod_opt/csrc/core/agreement/unnamed_calls.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace horovod_opt {
namespace unnamed_calls_test {

using Turn = UnnamedCalls::Turn;
constexpr int kLanes = UnnamedCalls::kLanes;

// One rank, on which each call has upstream's number in order.
struct Rank {
  UnnamedCalls calls;
  std::uint64_t number = 0;
  std::vector<Turn> sent;
  std::vector<std::uint64_t> sent_numbers;
  bool sending_fails = false;

  bool Call(std::int64_t signature, const std::string& text = "") {
    const std::uint64_t own = ++number;
    const auto describe = [&] { return text.empty() ? "kind " + std::to_string(signature) : text; };
    const auto turn = calls.Enter(signature, own, describe, [this, own] {
      return [this, own](const Turn& its) {
        if (sending_fails) return false;
        Send(its, own);
        return true;
      };
    });
    if (turn) Send(*turn, own);
    return turn.has_value();
  }
  void Send(const Turn& turn, std::uint64_t own) {
    sent.push_back(turn);
    sent_numbers.push_back(own);
  }
  void LeaveAll() {
    for (std::size_t i = 0; i < sent.size(); ++i) calls.Leave(sent[i].call);
  }
  std::string Waiting() const { return calls.Waiting(UnnamedCalls::Clock::now()); }
};

TEST(UnnamedCalls, ALaneHasOneCallUnderWay) {
  Rank rank;
  for (int i = 0; i < kLanes; ++i) EXPECT_TRUE(rank.Call(1));
  EXPECT_FALSE(rank.Call(1));
  EXPECT_TRUE(rank.Call(2));  // another signature
  rank.calls.Leave(rank.sent[1].call);
  EXPECT_EQ(rank.sent.size(), kLanes + 1u);  // the first lane is the next one's
  rank.calls.Leave(rank.sent[0].call);
  ASSERT_EQ(rank.sent.size(), kLanes + 2u);
  EXPECT_EQ(rank.sent_numbers.back(), kLanes + 1u);
}

TEST(UnnamedCalls, LanesArePlannedFromSoManyCallsAfterTheDecision) {
  Rank rank;
  for (int i = 0; i < kLanes + 2; ++i) rank.Call(1);  // 1 to kLanes are sent, others are held
  rank.calls.Plan(1, 2, [] {});
  for (int i = 0; i < 3 * kLanes; ++i) rank.Call(1);
  rank.LeaveAll();
  ASSERT_EQ(rank.sent.size(), 4u * kLanes + 2);
  std::map<std::uint64_t, Turn> turns;
  for (std::size_t i = 0; i < rank.sent.size(); ++i) turns[rank.sent_numbers[i]] = rank.sent[i];
  for (const auto& [number, turn] : turns) {
    if (number < 2u + kLanes) {
      EXPECT_EQ(turn.lane, UnnamedCalls::kNegotiated) << number;
    } else {
      EXPECT_EQ(turn.lane, static_cast<int>((number - 2) % kLanes)) << number;
      EXPECT_EQ(turn.number, static_cast<std::int64_t>(number - 2)) << number;
    }
  }
}

TEST(UnnamedCalls, RanksThatHaveBegunElsewhereCountAlike) {
  Rank first, second;
  first.calls.Pass();
  for (int i = 0; i < 3; ++i) {
    first.Call(1);
    first.calls.Leave(first.sent.back().call);
  }
  second.number = first.number;
  for (Rank* rank : {&first, &second}) {
    rank->sent.clear();
    for (std::int64_t signature : {1, 2, 1, 1, 1, 1}) {
      rank->Call(signature);
      if (rank->number == 4) rank->calls.Plan(1, 4, [] {});
      rank->calls.Leave(rank->sent.back().call);
    }
  }
  for (std::size_t i = 0; i < first.sent.size(); ++i) {
    EXPECT_EQ(first.sent[i].lane, second.sent[i].lane);
    EXPECT_EQ(first.sent[i].number, second.sent[i].number);
  }
  EXPECT_EQ(second.sent.back().lane, 0);
  EXPECT_EQ(second.sent.back().number, 5);
}

TEST(UnnamedCalls, WhateverTheTimingRanksSendTheSameCallsInTheSameLanes) {
  std::mt19937 random(std::random_device{}());
  std::vector<std::map<std::uint64_t, std::pair<int, std::int64_t>>> lanes;
  for (int ranks = 0; ranks < 20; ++ranks) {
    Rank rank;
    std::size_t left = 0;
    bool planned = false;
    const auto leave = [&] {
      // The 12th call is the one in whose response the decision is made.
      const std::uint64_t number = rank.sent_numbers[left];
      if (number == 12 && !planned) {
        planned = true;
        rank.calls.Plan(0, 12, [] {});
      }
      rank.calls.Leave(rank.sent[left++].call);
    };
    for (int i = 1; i <= 60; ++i) {
      rank.Call(i % 3);
      while (left < rank.sent.size() && random() % 3 > 0) leave();
    }
    while (left < rank.sent.size()) leave();
    auto& own = lanes.emplace_back();
    for (std::size_t i = 0; i < rank.sent.size(); ++i) {
      const Turn& turn = rank.sent[i];
      own[rank.sent_numbers[i]] = {turn.lane, turn.number};
    }
    EXPECT_EQ(own.size(), 60u);
    EXPECT_EQ(own, lanes[0]);
  }
}

TEST(UnnamedCalls, WhatCannotBeSentLeavesItsLaneToTheNext) {
  Rank rank;
  for (int i = 0; i < kLanes; ++i) rank.Call(1);
  for (int i = 0; i < 100000; ++i) rank.Call(1);
  rank.sending_fails = true;
  for (int i = 0; i < kLanes; ++i) rank.calls.Leave(rank.sent[i].call);
  rank.sending_fails = false;
  EXPECT_TRUE(rank.Call(1));
}

TEST(UnnamedCalls, APlanThatIsDroppedIsNegotiated) {
  Rank rank;
  int drops = 0;
  for (int i = 0; i < 3 * kLanes; ++i) {
    rank.Call(1);
    if (i == 0) rank.calls.Plan(1, 1, [&] { ++drops; });
    rank.calls.Leave(rank.sent.back().call);
  }
  EXPECT_NE(rank.sent.back().lane, UnnamedCalls::kNegotiated);
  rank.calls.Drop(2);
  EXPECT_EQ(drops, 0);
  rank.calls.Drop(1);
  rank.calls.Drop(1);
  rank.calls.DropAll();
  EXPECT_EQ(drops, 1);
  rank.Call(1);
  EXPECT_EQ(rank.sent.back().lane, UnnamedCalls::kNegotiated);
}

TEST(UnnamedCalls, WhatRanksWaitForIsComparedFromTheDecisionOn) {
  Rank first, second;
  first.calls.Pass();
  for (Rank* rank : {&first, &second}) {
    rank->Call(1, "allreduce of float32 [3]");
    EXPECT_EQ(rank->Waiting(), "");
    rank->calls.Plan(1, 1, [] {});
    rank->calls.Leave(rank->sent[0].call);
  }
  first.Call(1);
  second.Call(1, "allreduce of float32 [3]");
  const auto disorder = [&] {
    return UnnamedCalls::Disorder(
        {{0, first.Waiting()}, {1, second.Waiting()}, {2, std::string()}});
  };
  EXPECT_EQ(disorder(), "");
  first.Call(2, "allgather of int32 [any]");
  EXPECT_EQ(disorder(), "");  // the other one is late
  second.Call(3, "allreduce of int32 [4]");
  EXPECT_EQ(disorder(), "rank 0: allgather of int32 [any]; rank 1: allreduce of int32 [4]");
}

TEST(UnnamedCalls, CallsOfOneNameAreLeftToTheNegotiation) {
  Rank first, second;
  for (Rank* rank : {&first, &second}) {
    rank->Call(1, "allreduce of float32 [3]");
    rank->calls.Plan(1, 1, [] {});
  }
  first.Call(2, "allreduce of int32 [4]");
  second.Call(3, "allreduce of int32 [5]");
  EXPECT_EQ(UnnamedCalls::Disorder({{0, first.Waiting()}, {1, second.Waiting()}}), "");
  second.number += 1;  // so the ranks disagree on its name
  first.Call(4, "allreduce of int32 [6]");
  second.Call(5, "allreduce of int32 [7]");
  EXPECT_NE(UnnamedCalls::Disorder({{0, first.Waiting()}, {1, second.Waiting()}}), "");
}

TEST(UnnamedCalls, ThreadsThatCallAtOnceLoseNothing) {
  UnnamedCalls calls;
  std::atomic<std::uint64_t> number{0};
  std::atomic<int> done{0};
  const auto work = [&] {
    for (int i = 0; i < 2000; ++i) {
      const auto send = [&](const Turn& turn) {
        ++done;
        calls.Leave(turn.call);
        return true;
      };
      const auto turn = calls.Enter(i % 2, ++number, [] { return "kind"; }, [&] { return send; });
      if (turn) send(*turn);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 8000);
}

}  // namespace unnamed_calls_test
}  // namespace horovod_opt
