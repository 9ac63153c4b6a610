#include "horovod_opt/csrc/core/shm/flat_allreduce.h"

#include <cstring>

namespace horovod_opt {

void FlatAllreduce::CopyIn() {
  bucket_.Contribute(0, bucket_.Bytes(), layout_.Place(copy_, layout_.rank(), 0));
}

void FlatAllreduce::ReduceAll() {
  bucket_.ForEachBlock(0, bucket_.Bytes(), [&](std::int64_t begin, std::int64_t end) {
    const char* const first = layout_.Place(copy_, 0, 0) + begin;
    std::memcpy(block_, first, static_cast<std::size_t>(end - begin));
    for (int rank = 1; rank < layout_.ranks(); ++rank) {
      bucket_.Reduce(block_, layout_.Place(copy_, rank, 0) + begin, end - begin);
    }
    bucket_.Complete(begin, end, block_);
  });
}

}  // namespace horovod_opt
