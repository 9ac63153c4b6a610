#include "horovod_opt/csrc/io/order/dealing.h"

#include <algorithm>
#include <cstddef>

namespace horovod_opt {
namespace io {

std::int64_t Hand::of_group() const {
  std::int64_t samples = 0;
  for (std::size_t run = 0; run < firsts.size(); ++run) samples += ends[run] - firsts[run];
  return samples;
}

const std::vector<Dealing::Dealt>& Dealing::Of(std::int64_t step, bool is_dealt) {
  const Permutation permutation(
      static_cast<std::uint64_t>(std::max<std::int64_t>(hand_.of_group(), 1)),
      KeyFor(key_, static_cast<std::uint64_t>(step)));
  dealt_.clear();
  for (std::int64_t turn = 0; turn < hand_.samples(); ++turn) {
    std::int64_t number = hand_.first + turn;
    if (is_dealt) {
      number = static_cast<std::int64_t>(permutation.Forward(static_cast<std::uint64_t>(number)));
    }
    std::size_t run = 0;
    for (; number >= hand_.ends[run] - hand_.firsts[run]; ++run) {
      number -= hand_.ends[run] - hand_.firsts[run];
    }
    dealt_.emplace_back(hand_.firsts[run] + number, turn);
  }
  std::sort(dealt_.begin(), dealt_.end());
  return dealt_;
}

}  // namespace io
}  // namespace horovod_opt
