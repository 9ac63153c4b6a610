// What reduce_scatter_allgather.h and reduce_scatter.h share: every rank owns a slice of each
// chunk. The others show it their contributions to the slice, and it adds them up.
#pragma once

#include <cstdint>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"
#include "horovod_opt/csrc/core/reduction/bucket_reduction.h"
#include "horovod_opt/csrc/core/reduction/chunked_parts.h"

namespace horovod_opt {

class SliceSums {
 public:
  using Range = ChunkedParts::Range;

  // Chunk n uses copy `first` + n of the layout. `block`: BucketReduction::kBlock bytes for this
  // rank alone.
  SliceSums(const BucketReduction& bucket, const BucketLayout& layout, std::uint64_t first,
            char* block)
      : bucket_(bucket), layout_(layout), first_(first), block_(block), inputs_(layout.ranks()) {}

  // Where `rank` puts its part of what `owner` reduces.
  char* Place(std::int64_t chunk, int rank, int owner) const {
    return layout_.Place(first_ + static_cast<std::uint64_t>(chunk), rank, owner);
  }

  // `slice(owner)`: the range that it owns.
  template <class Slice>
  void CopyIn(std::int64_t chunk, const Slice& slice) const {
    for (int owner = 0; owner < layout_.ranks(); ++owner) {
      if (owner == layout_.rank()) continue;
      const Range range = slice(owner);
      bucket_.Contribute(range.begin, range.end, Place(chunk, layout_.rank(), owner));
    }
  }

  // After a barrier. Puts the sum of `slice`, which this rank owns, where its own contribution
  // would be, one block after the other, each followed by use(begin, end, sum).
  template <class Use>
  void ReduceOwn(std::int64_t chunk, const Range& slice, const Use& use) {
    const int own = layout_.rank();
    char* const sums = Place(chunk, own, own);
    bucket_.ForEachBlock(slice.begin, slice.end, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t offset = begin - slice.begin;
      char* const sum = sums + offset;
      for (int rank = 0; rank < layout_.ranks(); ++rank) {
        inputs_[rank] = Place(chunk, rank, own) + offset;
      }
      bucket_.Contribute(begin, end, block_);
      inputs_[own] = block_;
      bucket_.Reduce(sum, inputs_, end - begin);
      use(begin, end, sum);
    });
  }

 private:
  const BucketReduction& bucket_;
  const BucketLayout& layout_;
  const std::uint64_t first_;
  char* const block_;
  std::vector<const void*> inputs_;  // of one block, by rank
};

}  // namespace horovod_opt
