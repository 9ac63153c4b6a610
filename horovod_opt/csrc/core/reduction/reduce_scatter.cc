#include "horovod_opt/csrc/core/reduction/reduce_scatter.h"

#include <cstring>

namespace horovod_opt {

ReduceScatter::ReduceScatter(const BucketReduction& bucket, const BucketLayout& layout,
                             std::uint64_t first, const std::vector<std::int64_t>& ends,
                             char* block, void* output)
    : bucket_(bucket),
      layout_(layout),
      parts_(layout, ends, bucket.element()),
      output_(static_cast<char*>(output)),
      sums_(bucket, layout, first, block) {}

void ReduceScatter::CopyIn(std::int64_t chunk) {
  sums_.CopyIn(chunk, [&](int owner) { return parts_.Slice(chunk, owner); });
}

void ReduceScatter::ReduceOwn(std::int64_t chunk, bool scaled) {
  const int own = layout_.rank();
  const std::int64_t part = parts_.Begin(own);
  const auto finish = [&](std::int64_t begin, std::int64_t end, char* sum) {
    if (scaled) bucket_.ScaleSum(sum, end - begin);
    std::memcpy(output_ + (begin - part), sum, static_cast<std::size_t>(end - begin));
  };
  sums_.ReduceOwn(chunk, parts_.Slice(chunk, own), finish);
}

}  // namespace horovod_opt
