// Stratified dealing by a key: which samples of a step each rank of a group gets.
// horovod_opt/io/order/dealing.py says why, and how.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/order/permutation.h"

namespace horovod_opt {
namespace io {

// Rank `index` of the `ranks` of a group, which takes of each step the samples of the runs
// `firsts[i]` to `ends[i]` - 1, by place, ascending.
struct Hand {
  std::vector<std::int64_t> firsts, ends;
  std::int64_t ranks = 1, index = 0;

  std::int64_t of_group() const;
  std::int64_t samples() const;
  std::int64_t before() const;  // the samples of the ranks before it
};

// The numbers, among the samples of a step sorted by place, that a hand has, each with its turn in
// the hand: sorted by number.
class Dealing {
 public:
  using Dealt = std::pair<std::int64_t, std::int64_t>;  // number, turn

  Dealing(PermutationKey key, const Hand& hand);

  // `step`: its first position, so that what is left of an epoch is dealt as the whole of it. Good
  // until the next call.
  const std::vector<Dealt>& Deal(std::int64_t step);
  // What the rank has where nothing is dealt: its share by place.
  const std::vector<Dealt>& Share();

 private:
  std::int64_t NumberOf(std::int64_t number) const;

  const PermutationKey key_;
  const Hand& hand_;
  const std::int64_t of_group_, samples_;
  std::vector<Dealt> dealt_;
};

}  // namespace io
}  // namespace horovod_opt
