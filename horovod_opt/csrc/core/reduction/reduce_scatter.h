// Reduce-scatter: each rank adds up its own part of the contributions of all. The first half of
// reduce_scatter_allgather.h; one barrier a chunk, since nobody reads the sums of another rank.
#pragma once

#include <cstdint>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"
#include "horovod_opt/csrc/core/reduction/bucket_reduction.h"
#include "horovod_opt/csrc/core/reduction/chunked_parts.h"
#include "horovod_opt/csrc/core/reduction/slice_sums.h"

namespace horovod_opt {

class ReduceScatter {
 public:
  // Uses the copies of the layout from `first` on. `ends`: of the parts, in bytes, by rank.
  // `block`: BucketReduction::kBlock bytes for this rank alone.
  ReduceScatter(const BucketReduction& bucket, const BucketLayout& layout, std::uint64_t first,
                const std::vector<std::int64_t>& ends, char* block, void* output);

  std::int64_t chunks() const { return parts_.chunks(); }
  void CopyIn(std::int64_t chunk);
  // After a barrier. `scaled`: the sums are complete, so the postscale applies.
  void ReduceOwn(std::int64_t chunk, bool scaled);

 private:
  const BucketReduction& bucket_;
  const BucketLayout& layout_;
  const ChunkedParts parts_;
  char* const output_;
  SliceSums sums_;
};

}  // namespace horovod_opt
