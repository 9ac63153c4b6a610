// Reduce-scatter: each rank adds up its own part of the contributions of all. The first half of
// reduce_scatter_allgather.h; one barrier a chunk, since nobody reads the sums of another rank.
#pragma once

#include <cstdint>
#include <vector>

#include "horovod_opt/csrc/core/shm/bucket_layout.h"
#include "horovod_opt/csrc/core/shm/bucket_reduction.h"

namespace horovod_opt {

class ReduceScatter {
 public:
  // Uses the copies of the layout from `first` on. `ends`: of the parts, in bytes, by rank.
  // `block`: BucketReduction::kBlock bytes for this rank alone.
  ReduceScatter(const BucketReduction& bucket, const BucketLayout& layout, std::uint64_t first,
                const std::vector<std::int64_t>& ends, char* block, void* output);

  std::int64_t chunks() const { return chunks_; }
  void CopyIn(std::int64_t chunk);
  // After a barrier.
  void ReduceOwn(std::int64_t chunk);

 private:
  struct Range {
    std::int64_t begin, end;
  };
  Range Slice(std::int64_t chunk, int owner) const;
  char* Place(std::int64_t chunk, int rank, int owner) const;

  const BucketReduction& bucket_;
  const BucketLayout& layout_;
  const std::uint64_t first_;
  const std::vector<std::int64_t>& ends_;
  char* const block_;
  char* const output_;
  std::vector<const void*> inputs_;  // of one block, by rank
  std::int64_t slice_bytes_, chunks_;
};

}  // namespace horovod_opt
