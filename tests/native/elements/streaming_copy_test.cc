#include "horovod_opt/csrc/core/elements/streaming_copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace horovod_opt {
namespace streaming_copy_test {

// Of any length, from and to any place of a cache line; nothing beside it is written.
TEST(StreamingCopy, IsACopyOfExactlyTheseBytes) {
  constexpr std::size_t kRoom = 3 * 4096;
  std::vector<char> from(kRoom), to(kRoom);
  for (std::size_t i = 0; i < kRoom; ++i) from[i] = static_cast<char>(i * 7 + i / 256);
  for (std::size_t bytes : {0, 1, 63, 4095, 4096, 4097, 4159, 4160, 5000, 8192, 8255}) {
    for (std::size_t source = 0; source < 130; source += 13) {
      for (std::size_t target = 0; target < 130; target += 3) {
        to.assign(kRoom, 'x');
        StreamingCopy(to.data() + target, from.data() + source, bytes);
        for (std::size_t i = 0; i < kRoom; ++i) {
          const bool is_copied = i >= target && i < target + bytes;
          ASSERT_EQ(to[i], is_copied ? from[source + i - target] : 'x')
              << bytes << " bytes from " << source << " to " << target << ", at " << i;
        }
      }
    }
  }
}

}  // namespace streaming_copy_test
}  // namespace horovod_opt
