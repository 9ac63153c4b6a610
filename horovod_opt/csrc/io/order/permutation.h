// Keyed permutations of the numbers below n: a Feistel network over as many bits as n - 1 has, and
// cycle walking (Black and Rogaway, CT-RSA 2002, DOI 10.1007/3-540-45760-7_9).
// horovod_opt/io/order/permutation.py says what they are for.
#pragma once

#include <cstdint>

namespace horovod_opt {
namespace io {

struct PermutationKey {
  std::uint64_t first = 0, step = 0;  // round i has first + i x step
};

// A key of its own for this number: derive_keys() of Python's side.
PermutationKey KeyFor(PermutationKey key, std::uint64_t number);

// Both halves of a number change in turn, so they need not be of equal size.
class Permutation {
 public:
  Permutation() = default;
  // 1 <= n <= 2^62
  Permutation(std::uint64_t n, PermutationKey key);

  // Where a number below n goes, and what goes to it.
  std::uint64_t Forward(std::uint64_t number) const;
  std::uint64_t Backward(std::uint64_t number) const;

 private:
  std::uint64_t n_ = 1;
  PermutationKey key_;
  int rounds_ = 0, low_ = 0;
  std::uint64_t of_right_ = 0, of_left_ = 0;
};

}  // namespace io
}  // namespace horovod_opt
