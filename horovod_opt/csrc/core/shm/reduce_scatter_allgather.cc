#include "horovod_opt/csrc/core/shm/reduce_scatter_allgather.h"

#include <algorithm>

namespace horovod_opt {
namespace {

std::int64_t CeilDiv(std::int64_t numerator, std::int64_t denominator) {
  return (numerator + denominator - 1) / denominator;
}

}  // namespace

// Chunks are as equal as possible.
ReduceScatterAllgather::ReduceScatterAllgather(const BucketReduction& bucket,
                                               const BucketLayout& layout,
                                               const CrossReduce& cross, std::uint64_t first,
                                               char* block)
    : bucket_(bucket),
      layout_(layout),
      cross_(cross),
      first_(first),
      block_(block),
      inputs_(layout.ranks()) {
  const std::int64_t element = bucket.element();
  const std::int64_t elements = bucket.Bytes() / element;
  const std::int64_t most = layout.slice() / element * layout.ranks();
  chunks_ = std::max<std::int64_t>(1, CeilDiv(elements, most));
  const std::int64_t chunk_elements = CeilDiv(elements, chunks_);
  chunk_bytes_ = chunk_elements * element;
  slice_bytes_ = CeilDiv(chunk_elements, layout.ranks()) * element;
}

void ReduceScatterAllgather::CopyIn(std::int64_t chunk) {
  for (int owner = 0; owner < layout_.ranks(); ++owner) {
    if (owner == layout_.rank()) continue;
    const Range slice = Slice(chunk, owner);
    bucket_.Contribute(slice.begin, slice.end, Place(chunk, layout_.rank(), owner));
  }
}

bool ReduceScatterAllgather::ReduceOwn(std::int64_t chunk) {
  const int own = layout_.rank();
  const Range slice = Slice(chunk, own);
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
    if (!cross_) bucket_.Complete(begin, end, sum);
  });
  if (!cross_ || slice.begin == slice.end) return true;
  if (!cross_(sums, (slice.end - slice.begin) / bucket_.element())) return false;
  bucket_.Complete(slice.begin, slice.end, sums);
  return true;
}

void ReduceScatterAllgather::CopyOut(std::int64_t chunk) const {
  for (int owner = 0; owner < layout_.ranks(); ++owner) {
    if (owner == layout_.rank()) continue;
    const Range slice = Slice(chunk, owner);
    bucket_.Write(slice.begin, slice.end, Place(chunk, owner, owner));
  }
}

ReduceScatterAllgather::Range ReduceScatterAllgather::Slice(std::int64_t chunk, int owner) const {
  const std::int64_t end = std::min((chunk + 1) * chunk_bytes_, bucket_.Bytes());
  const std::int64_t begin = std::min(chunk * chunk_bytes_ + owner * slice_bytes_, end);
  return {begin, std::min(begin + slice_bytes_, end)};
}

char* ReduceScatterAllgather::Place(std::int64_t chunk, int rank, int owner) const {
  return layout_.Place(first_ + static_cast<std::uint64_t>(chunk), rank, owner);
}

}  // namespace horovod_opt
