#include "horovod_opt/csrc/core/network/allreduce_schedules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace horovod_opt {
namespace allreduce_schedules_test {

using Algorithm = std::function<Schedule(int members, int self)>;
// Of each piece, whose contributions are in it.
using Pieces = std::vector<std::multiset<int>>;

// All members, in steps that wait for nothing but their message.
struct Job {
  Job(const Algorithm& algorithm, int members) {
    for (int self = 0; self < members; ++self) {
      schedules.push_back(algorithm(members, self));
      held.emplace_back(schedules[self].pieces, std::multiset<int>{self});
    }
    std::vector<std::size_t> at(members, 0);
    std::vector<bool> sent(members, false);
    std::map<std::pair<int, int>, std::deque<Pieces>> on_their_way;
    for (bool moved = true; moved;) {
      moved = false;
      for (int self = 0; self < members; ++self) {
        if (at[self] == schedules[self].steps.size()) continue;
        const Step& step = schedules[self].steps[at[self]];
        if (!sent[self] && step.to != Step::kNobody) {
          on_their_way[{self, step.to}].emplace_back(held[self].begin() + step.outgoing.begin,
                                                     held[self].begin() + step.outgoing.end);
          bytes += step.outgoing.end - step.outgoing.begin;
        }
        sent[self] = true;
        if (step.from != Step::kNobody) {
          auto& coming = on_their_way[{step.from, self}];
          if (coming.empty()) continue;
          const Pieces message = coming.front();
          coming.pop_front();
          EXPECT_EQ(message.size(),
                    static_cast<std::size_t>(step.incoming.end - step.incoming.begin));
          for (std::size_t i = 0; i < message.size(); ++i) {
            auto& own = held[self][step.incoming.begin + i];
            if (!step.adds) own.clear();
            own.insert(message[i].begin(), message[i].end());
          }
        }
        ++at[self];
        sent[self] = false;
        moved = true;
      }
    }
    for (int self = 0; self < members; ++self) {
      EXPECT_EQ(at[self], schedules[self].steps.size()) << "member " << self << " waits forever";
    }
    for (const auto& [whom, messages] : on_their_way) EXPECT_TRUE(messages.empty());
  }

  std::vector<Schedule> schedules;
  std::vector<Pieces> held;
  int bytes = 0;  // in pieces
};

class Schedules : public testing::TestWithParam<int> {
 protected:
  void ExpectSums(const Algorithm& algorithm) {
    const int members = GetParam();
    const Job run(algorithm, members);
    std::multiset<int> all;
    for (int member = 0; member < members; ++member) all.insert(member);
    for (const Pieces& pieces : run.held) {
      for (const auto& piece : pieces) EXPECT_EQ(piece, all);
    }
  }
};

TEST_P(Schedules, EveryMemberHasTheSumOfAll) {
  ExpectSums(RecursiveDoubling);
  ExpectSums(Ring);
  ExpectSums(HalvingAndDoubling);
}

TEST_P(Schedules, ARingSendsEveryByteLessThanTwice) {
  const int members = GetParam();
  EXPECT_EQ(Job(Ring, members).bytes, members * 2 * (members - 1));
}

TEST_P(Schedules, StepsOfDoublingGrowWithTheLogarithm) {
  const int members = GetParam();
  int hops = 0;
  while ((1 << hops) < members) ++hops;
  for (int self = 0; self < members; ++self) {
    EXPECT_LE(RecursiveDoubling(members, self).steps.size(), static_cast<std::size_t>(hops + 1));
    EXPECT_LE(HalvingAndDoubling(members, self).steps.size(),
              static_cast<std::size_t>(2 * hops + 2));
  }
}

TEST_P(Schedules, NeighboursAreThoseWhoAreSentToOrReceivedFrom) {
  const int members = GetParam();
  int most = 0;
  for (int self = 0; self < members; ++self) {
    const auto own = Neighbours(members, self);
    most = std::max(most, static_cast<int>(own.size()));
    for (int neighbour : own) {
      const auto back = Neighbours(members, neighbour);
      EXPECT_TRUE(std::binary_search(back.begin(), back.end(), self));
    }
  }
  int hops = 0;
  while ((1 << hops) < members) ++hops;
  EXPECT_LE(most, hops + 3);
}

INSTANTIATE_TEST_SUITE_P(Members, Schedules,
                         testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 33));

}  // namespace allreduce_schedules_test
}  // namespace horovod_opt
