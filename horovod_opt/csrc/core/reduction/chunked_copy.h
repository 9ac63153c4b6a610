// Allgather and broadcast in shared memory, collectives that only copy: every rank shows what it
// has, a chunk at a time, and whoever wants it copies it out after the barrier. One barrier a
// chunk; each byte is copied in once and out by every reader.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"

namespace horovod_opt {

class ChunkedCopy {
 public:
  // Uses the copies of the layout from `first` on. `data`: this rank's `bytes` bytes.
  ChunkedCopy(const BucketLayout& layout, std::uint64_t first, const void* data, std::int64_t bytes)
      : layout_(layout), first_(first), data_(static_cast<const char*>(data)), bytes_(bytes) {}

  // That `bytes` need; at least one.
  std::int64_t Chunks(std::int64_t bytes) const {
    return std::max<std::int64_t>(1, (bytes + Room() - 1) / Room());
  }

  void CopyIn(std::int64_t chunk) {
    const Range range = Of(chunk, bytes_);
    if (range.bytes == 0) return;
    std::memcpy(Place(chunk, layout_.rank()), data_ + range.begin,
                static_cast<std::size_t>(range.bytes));
  }

  // After a barrier: this chunk of what `rank` has, which is `bytes` bytes, to its place in `to`.
  void CopyOut(std::int64_t chunk, int rank, std::int64_t bytes, void* to) const {
    const Range range = Of(chunk, bytes);
    if (range.bytes == 0) return;
    std::memcpy(static_cast<char*>(to) + range.begin, Place(chunk, rank),
                static_cast<std::size_t>(range.bytes));
  }

 private:
  struct Range {
    std::int64_t begin, bytes;
  };

  std::int64_t Room() const { return layout_.slice() * layout_.ranks(); }

  Range Of(std::int64_t chunk, std::int64_t bytes) const {
    const std::int64_t begin = std::min(chunk * Room(), bytes);
    return {begin, std::min(Room(), bytes - begin)};
  }

  char* Place(std::int64_t chunk, int rank) const {
    return layout_.Place(first_ + static_cast<std::uint64_t>(chunk), rank, 0);
  }

  const BucketLayout& layout_;
  const std::uint64_t first_;
  const char* const data_;
  const std::int64_t bytes_;
};

}  // namespace horovod_opt
