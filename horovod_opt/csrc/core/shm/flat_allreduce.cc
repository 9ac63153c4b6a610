#include "horovod_opt/csrc/core/shm/flat_allreduce.h"

namespace horovod_opt {

void FlatAllreduce::CopyIn() {
  bucket_.Contribute(0, bucket_.Bytes(), layout_.Place(copy_, layout_.rank(), 0));
}

void FlatAllreduce::ReduceAll() {
  bucket_.ForEachBlock(0, bucket_.Bytes(), [&](std::int64_t begin, std::int64_t end) {
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      inputs_[rank] = layout_.Place(copy_, rank, 0) + begin;
    }
    bucket_.Reduce(block_, inputs_, end - begin);
    bucket_.Complete(begin, end, block_);
  });
}

}  // namespace horovod_opt
