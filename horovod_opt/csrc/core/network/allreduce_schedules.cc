#include "horovod_opt/csrc/core/network/allreduce_schedules.h"

#include <set>

namespace horovod_opt {
namespace {

// Up to here the number of messages counts, and above the number of bytes.
constexpr std::int64_t kLittle = 32 << 10;
// Beyond, a ring has too many steps.
constexpr int kLongestRing = 16;

// Of members that are no power of two, the first ones form pairs, and one of each pair stands for
// both.
class Fold {
 public:
  Fold(int members, int self) : self_(self) {
    while (2 * power_ <= members) power_ *= 2;
    pairs_ = members - power_;
  }

  int power() const { return power_; }
  bool InPair() const { return self_ < 2 * pairs_; }
  bool StandsBack() const { return InPair() && self_ % 2 == 1; }
  int Partner() const { return self_ ^ 1; }
  // Among those that stand for all, and back.
  int Number() const { return InPair() ? self_ / 2 : self_ - pairs_; }
  int Member(int number) const { return number < pairs_ ? 2 * number : number + pairs_; }

  // Puts the steps of `number` between those in which the pairs come together and part.
  template <class Steps>
  Schedule Around(int pieces, const Steps& steps_of) const {
    Schedule schedule;
    schedule.pieces = pieces;
    const Step::Pieces all{0, pieces};
    if (StandsBack()) {
      schedule.steps = {{Partner(), all, Step::kNobody, {}, false},
                        {Step::kNobody, {}, Partner(), all, false}};
      return schedule;
    }
    if (InPair()) schedule.steps.push_back({Step::kNobody, {}, Partner(), all, true});
    steps_of(Number(), schedule.steps);
    if (InPair()) schedule.steps.push_back({Partner(), all, Step::kNobody, {}, false});
    return schedule;
  }

 private:
  const int self_;
  int power_ = 1, pairs_ = 0;
};

}  // namespace

Schedule RecursiveDoubling(int members, int self) {
  const Fold fold(members, self);
  return fold.Around(1, [&](int number, std::vector<Step>& steps) {
    for (int distance = 1; distance < fold.power(); distance *= 2) {
      const int partner = fold.Member(number ^ distance);
      steps.push_back({partner, {0, 1}, partner, {0, 1}, true});
    }
  });
}

Schedule Ring(int members, int self) {
  Schedule schedule;
  schedule.pieces = members;
  const int next = (self + 1) % members, before = (self + members - 1) % members;
  const auto piece = [&](int number) {
    const int own = (number % members + members) % members;
    return Step::Pieces{own, own + 1};
  };
  for (int step = 0; step < members - 1; ++step) {
    schedule.steps.push_back({next, piece(self - step), before, piece(self - step - 1), true});
  }
  for (int step = 0; step < members - 1; ++step) {
    schedule.steps.push_back({next, piece(self + 1 - step), before, piece(self - step), false});
  }
  return schedule;
}

Schedule HalvingAndDoubling(int members, int self) {
  const Fold fold(members, self);
  return fold.Around(fold.power(), [&](int number, std::vector<Step>& steps) {
    Step::Pieces own{0, fold.power()};
    std::vector<Step> back;
    for (int distance = fold.power() / 2; distance > 0; distance /= 2) {
      const int partner = fold.Member(number ^ distance);
      const int middle = (own.begin + own.end) / 2;
      Step::Pieces own_half{own.begin, middle}, other_half{middle, own.end};
      if (number & distance) std::swap(own_half, other_half);
      steps.push_back({partner, other_half, partner, own_half, true});
      back.push_back({partner, own_half, partner, other_half, false});
      own = own_half;
    }
    steps.insert(steps.end(), back.rbegin(), back.rend());
  });
}

Schedule ScheduleFor(int members, int self, std::int64_t bytes) {
  if (bytes <= kLittle) return RecursiveDoubling(members, self);
  return members <= kLongestRing ? Ring(members, self) : HalvingAndDoubling(members, self);
}

std::vector<int> Neighbours(int members, int self) {
  std::set<int> neighbours{(self + 1) % members, (self + members - 1) % members};
  for (std::int64_t bytes : {kLittle, kLittle + 1}) {
    for (const Step& step : ScheduleFor(members, self, bytes).steps) {
      neighbours.insert(step.to);
      neighbours.insert(step.from);
    }
  }
  neighbours.erase(Step::kNobody);
  neighbours.erase(self);
  return {neighbours.begin(), neighbours.end()};
}

}  // namespace horovod_opt
