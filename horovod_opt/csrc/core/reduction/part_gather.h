// The other half of an allreduce after reduce_scatter.h: each rank shows the others its own part of
// the result. One barrier a chunk.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"
#include "horovod_opt/csrc/core/reduction/bucket_reduction.h"
#include "horovod_opt/csrc/core/reduction/chunked_parts.h"

namespace horovod_opt {

class PartGather {
 public:
  // Uses the copies of the layout from `first` on. `ends`: of the parts, in bytes, by rank.
  // `result`: this rank's part.
  PartGather(const BucketReduction& bucket, const BucketLayout& layout, std::uint64_t first,
             const std::vector<std::int64_t>& ends, const char* result)
      : bucket_(bucket),
        layout_(layout),
        first_(first),
        parts_(layout, ends, bucket.element()),
        result_(result) {}

  std::int64_t chunks() const { return parts_.chunks(); }

  void CopyIn(std::int64_t chunk) const {
    const int own = layout_.rank();
    const auto slice = parts_.Slice(chunk, own);
    if (slice.begin == slice.end) return;
    std::memcpy(Place(chunk, own), OwnPart(slice.begin),
                static_cast<std::size_t>(slice.end - slice.begin));
  }

  // After a barrier.
  void CopyOut(std::int64_t chunk) const {
    for (int owner = 0; owner < layout_.ranks(); ++owner) {
      const auto slice = parts_.Slice(chunk, owner);
      bucket_.Write(slice.begin, slice.end,
                    owner == layout_.rank() ? OwnPart(slice.begin) : Place(chunk, owner));
    }
  }

 private:
  // From this byte of the bucket on.
  const char* OwnPart(std::int64_t begin) const {
    return result_ + (begin - parts_.Begin(layout_.rank()));
  }

  char* Place(std::int64_t chunk, int owner) const {
    return layout_.Place(first_ + static_cast<std::uint64_t>(chunk), owner, owner);
  }

  const BucketReduction& bucket_;
  const BucketLayout& layout_;
  const std::uint64_t first_;
  const ChunkedParts parts_;
  const char* const result_;
};

}  // namespace horovod_opt
