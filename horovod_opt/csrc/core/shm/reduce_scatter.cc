#include "horovod_opt/csrc/core/shm/reduce_scatter.h"

#include <algorithm>
#include <cstring>

namespace horovod_opt {

ReduceScatter::ReduceScatter(const BucketReduction& bucket, const BucketLayout& layout,
                             std::uint64_t first, const std::vector<std::int64_t>& ends,
                             char* block, void* output)
    : bucket_(bucket),
      layout_(layout),
      first_(first),
      ends_(ends),
      block_(block),
      output_(static_cast<char*>(output)),
      inputs_(layout.ranks()),
      slice_bytes_(layout.slice() / bucket.element() * bucket.element()) {
  std::int64_t longest = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    longest = std::max(longest, ends[rank] - (rank == 0 ? 0 : ends[rank - 1]));
  }
  chunks_ = std::max<std::int64_t>(1, (longest + slice_bytes_ - 1) / slice_bytes_);
}

void ReduceScatter::CopyIn(std::int64_t chunk) {
  for (int owner = 0; owner < layout_.ranks(); ++owner) {
    if (owner == layout_.rank()) continue;
    const Range slice = Slice(chunk, owner);
    bucket_.Contribute(slice.begin, slice.end, Place(chunk, layout_.rank(), owner));
  }
}

void ReduceScatter::ReduceOwn(std::int64_t chunk) {
  const int own = layout_.rank();
  const Range slice = Slice(chunk, own);
  const std::int64_t part = own == 0 ? 0 : ends_[own - 1];
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
    bucket_.ScaleSum(sum, end - begin);
    std::memcpy(output_ + (begin - part), sum, static_cast<std::size_t>(end - begin));
  });
}

ReduceScatter::Range ReduceScatter::Slice(std::int64_t chunk, int owner) const {
  const std::int64_t end = ends_[owner];
  const std::int64_t begin =
      std::min((owner == 0 ? 0 : ends_[owner - 1]) + chunk * slice_bytes_, end);
  return {begin, std::min(begin + slice_bytes_, end)};
}

char* ReduceScatter::Place(std::int64_t chunk, int rank, int owner) const {
  return layout_.Place(first_ + static_cast<std::uint64_t>(chunk), rank, owner);
}

}  // namespace horovod_opt
