#include "horovod_opt/csrc/core/reduction/flat_allreduce.h"

namespace horovod_opt {

void FlatAllreduce::CopyIn() {
  bucket_.Contribute(0, bucket_.Bytes(), layout_.Place(copy_, layout_.rank(), 0));
}

void FlatAllreduce::ReduceAll() {
  std::vector<const char*> rows;
  for (int rank = 0; rank < layout_.ranks(); ++rank) rows.push_back(layout_.Place(copy_, rank, 0));
  bucket_.AddUp(rows, block_);
}

}  // namespace horovod_opt
