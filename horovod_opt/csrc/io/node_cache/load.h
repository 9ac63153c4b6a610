// What the leader is told to read.
#pragma once

#include <cstdint>
#include <vector>

namespace horovod_opt {
namespace io {

// A piece of a file, and where in the slot it comes.
struct Extent {
  std::int32_t file;
  std::int64_t offset, bytes, place;
};

// A chunk, needed by ranks of the node in the steps from `first` to `last`.
struct Load {
  std::int64_t first, last;
  std::int64_t bytes;  // in the slot
  std::vector<Extent> extents;
};

}  // namespace io
}  // namespace horovod_opt
