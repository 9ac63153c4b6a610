// Flat allreduce: every rank shows the others its whole contribution and adds up all of them
// itself. One barrier, but every rank reads all contributions: for small buckets. It is the
// allgather followed by a local reduction that MPI libraries use for short messages (Thakur,
// Rabenseifner and Gropp, IJHPCA 19(1), 2005, section 4.5), in shared memory.
#pragma once

#include <cstdint>
#include <vector>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"

namespace horovod_opt {

class FlatAllreduce {
 public:
  // Uses `copy` of the layout. `block`: BucketReduction::kBlock bytes for this rank alone.
  FlatAllreduce(const BucketReduction& bucket, const BucketLayout& layout, std::uint64_t copy,
                char* block)
      : bucket_(bucket), layout_(layout), copy_(copy), block_(block) {}

  // Whether the bucket has room.
  static bool Fits(std::int64_t bytes, const BucketLayout& layout) {
    return bytes <= layout.slice() * layout.ranks();
  }

  void CopyIn() { bucket_.Contribute(0, bucket_.Bytes(), layout_.Place(copy_, layout_.rank(), 0)); }
  // After a barrier.
  void ReduceAll() {
    std::vector<const char*> rows;
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      rows.push_back(layout_.Place(copy_, rank, 0));
    }
    bucket_.AddUp(rows, block_);
  }

 private:
  const BucketReduction& bucket_;
  const BucketLayout& layout_;
  const std::uint64_t copy_;
  char* const block_;
};

}  // namespace horovod_opt
