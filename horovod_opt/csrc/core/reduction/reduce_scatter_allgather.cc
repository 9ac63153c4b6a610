#include "horovod_opt/csrc/core/reduction/reduce_scatter_allgather.h"

#include <algorithm>
#include <cstring>

#include "horovod_opt/csrc/core/base/rounding.h"

namespace horovod_opt {

// Chunks are as equal as possible.
ReduceScatterAllgather::ReduceScatterAllgather(const BucketReduction& bucket,
                                               const BucketLayout& layout, std::uint64_t first,
                                               SliceSums::Blocks& blocks)
    : bucket_(bucket), layout_(layout), sums_(bucket, layout, first, blocks) {
  const std::int64_t element = bucket.element();
  const std::int64_t elements = bucket.Bytes() / element;
  const std::int64_t most = layout.slice() / element * layout.ranks();
  chunks_ = std::max<std::int64_t>(1, CeilDiv(elements, most));
  const std::int64_t chunk_elements = CeilDiv(elements, chunks_);
  chunk_bytes_ = chunk_elements * element;
  slice_bytes_ = CeilDiv(chunk_elements, layout.ranks()) * element;
}

void ReduceScatterAllgather::CopyIn(std::int64_t chunk) {
  sums_.CopyIn(chunk, [&](int owner) { return Slice(chunk, owner); });
}

void ReduceScatterAllgather::ReduceOwn(std::int64_t chunk) {
  const int own = layout_.rank();
  const SliceSums::Range slice = Slice(chunk, own);
  char* const shown = sums_.Place(chunk, own, own);
  const auto to = [&](std::int64_t begin, std::int64_t end) {
    return bucket_.Where(begin, end).out;
  };
  sums_.ReduceOwn(chunk, slice, to, [&](std::int64_t begin, std::int64_t end, char* sum) {
    bucket_.Complete(begin, end, sum);
    std::memcpy(shown + (begin - slice.begin), sum, static_cast<std::size_t>(end - begin));
  });
}

void ReduceScatterAllgather::CopyOut(std::int64_t chunk) const {
  for (int owner = 0; owner < layout_.ranks(); ++owner) {
    if (owner == layout_.rank()) continue;
    const SliceSums::Range slice = Slice(chunk, owner);
    bucket_.Write(slice.begin, slice.end, sums_.Place(chunk, owner, owner));
  }
}

SliceSums::Range ReduceScatterAllgather::Slice(std::int64_t chunk, int owner) const {
  const std::int64_t end = std::min((chunk + 1) * chunk_bytes_, bucket_.Bytes());
  const std::int64_t begin = std::min(chunk * chunk_bytes_ + owner * slice_bytes_, end);
  return {begin, std::min(begin + slice_bytes_, end)};
}

}  // namespace horovod_opt
