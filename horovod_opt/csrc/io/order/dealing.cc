#include "horovod_opt/csrc/io/order/dealing.h"

#include <algorithm>
#include <cstddef>

namespace horovod_opt {
namespace io {

std::int64_t Hand::of_group() const {
  std::int64_t all = 0;
  for (std::size_t run = 0; run < firsts.size(); ++run) all += ends[run] - firsts[run];
  return all;
}

std::int64_t Hand::samples() const {
  const std::int64_t all = of_group();
  return all / ranks + (index < all % ranks);
}

std::int64_t Hand::before() const {
  const std::int64_t all = of_group();
  return all / ranks * index + std::min(index, all % ranks);
}

Dealing::Dealing(PermutationKey key, const Hand& hand)
    : key_(key), hand_(hand), of_group_(hand.of_group()), samples_(hand.samples()) {
  dealt_.reserve(static_cast<std::size_t>(samples_));
}

const std::vector<Dealing::Dealt>& Dealing::Deal(std::int64_t step) {
  const PermutationKey of_step = KeyFor(key_, static_cast<std::uint64_t>(step));
  const Permutation rounds(static_cast<std::uint64_t>(std::max<std::int64_t>(samples_, 1)),
                           of_step);
  dealt_.clear();
  // Numbers ascend with the rounds.
  for (std::int64_t round = 0; round < samples_; ++round) {
    const std::int64_t begin = round * hand_.ranks;
    const std::int64_t ranks = std::min(hand_.ranks, of_group_ - begin);
    const std::uint64_t key = KeyFor(of_step, static_cast<std::uint64_t>(round)).first;
    const auto shift = static_cast<std::int64_t>(key % static_cast<std::uint64_t>(ranks));
    const std::int64_t place = hand_.index + shift;
    dealt_.emplace_back(NumberOf(begin + (place < ranks ? place : place - ranks)),
                        rounds.Backward(static_cast<std::uint64_t>(round)));
  }
  return dealt_;
}

const std::vector<Dealing::Dealt>& Dealing::Share() {
  dealt_.clear();
  for (std::int64_t turn = 0; turn < samples_; ++turn) {
    dealt_.emplace_back(NumberOf(hand_.before() + turn), turn);
  }
  return dealt_;
}

// Of the group's samples, counted by place, in the step.
std::int64_t Dealing::NumberOf(std::int64_t number) const {
  std::size_t run = 0;
  for (; number >= hand_.ends[run] - hand_.firsts[run]; ++run) {
    number -= hand_.ends[run] - hand_.firsts[run];
  }
  return hand_.firsts[run] + number;
}

}  // namespace io
}  // namespace horovod_opt
