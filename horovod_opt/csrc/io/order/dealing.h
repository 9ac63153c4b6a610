// Keyed dealing: which samples of a step each rank of a group gets. horovod_opt/io/order/dealing.py
// says what for.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/order/permutation.h"

namespace horovod_opt {
namespace io {

// What a rank is dealt of what its group takes in each step: of the samples of the runs `firsts[i]`
// to `ends[i]` - 1 (by place, ascending), permuted, those from number `first` to `end` - 1.
struct Hand {
  std::vector<std::int64_t> firsts, ends;
  std::int64_t first = 0, end = 0;

  std::int64_t samples() const { return end - first; }
  std::int64_t of_group() const;
};

// The numbers, among the samples of a step sorted by place, that a hand has, each with its turn in
// the hand: sorted by number. `step` is the step's first position, so that what is left of an epoch
// is dealt as the whole of it. Without dealing, numbers ascend with the turns.
class Dealing {
 public:
  using Dealt = std::pair<std::int64_t, std::int64_t>;  // number, turn

  Dealing(PermutationKey key, Hand hand) : key_(key), hand_(std::move(hand)) {}
  // Good until the next call.
  const std::vector<Dealt>& Of(std::int64_t step, bool is_dealt);
  const Hand& hand() const { return hand_; }

 private:
  const PermutationKey key_;
  const Hand hand_;
  std::vector<Dealt> dealt_;
};

}  // namespace io
}  // namespace horovod_opt
