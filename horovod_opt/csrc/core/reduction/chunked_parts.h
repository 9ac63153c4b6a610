// A bucket in parts, one a rank, which are moved a chunk at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"

namespace horovod_opt {

class ChunkedParts {
 public:
  // `ends`: of the parts, in bytes, by rank, whole elements.
  ChunkedParts(const BucketLayout& layout, const std::vector<std::int64_t>& ends,
               std::int64_t element)
      : ends_(ends), slice_bytes_(layout.slice() / element * element) {
    std::int64_t longest = 0;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      longest = std::max(longest, ends[rank] - Begin(rank));
    }
    chunks_ = std::max<std::int64_t>(1, (longest + slice_bytes_ - 1) / slice_bytes_);
  }

  // Of the bucket, in bytes.
  struct Range {
    std::int64_t begin, end;
  };

  std::int64_t chunks() const { return chunks_; }
  std::int64_t Begin(int owner) const { return owner == 0 ? 0 : ends_[owner - 1]; }
  Range Slice(std::int64_t chunk, int owner) const {
    const std::int64_t end = ends_[owner];
    const std::int64_t begin = std::min(Begin(owner) + chunk * slice_bytes_, end);
    return {begin, std::min(begin + slice_bytes_, end)};
  }

 private:
  const std::vector<std::int64_t>& ends_;
  const std::int64_t slice_bytes_;
  std::int64_t chunks_;
};

}  // namespace horovod_opt
