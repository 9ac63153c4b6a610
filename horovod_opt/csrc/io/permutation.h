// Keyed permutations of the numbers below n: a Feistel network over as many bits as n - 1 has, and
// cycle walking (Black and Rogaway, CT-RSA 2002, DOI 10.1007/3-540-45760-7_9).
// horovod_opt/io/order/permutation.py says what they are for.
#pragma once

#include <cstdint>

namespace horovod_opt {
namespace io {

struct PermutationKey {
  std::uint64_t first, step;  // round i has first + i x step
};

// Where `number` goes, and, with Unpermuted(), what goes to it; 1 <= n <= 2^62, number < n.
std::uint64_t Permuted(std::uint64_t number, std::uint64_t n, PermutationKey key);
std::uint64_t Unpermuted(std::uint64_t number, std::uint64_t n, PermutationKey key);

}  // namespace io
}  // namespace horovod_opt
