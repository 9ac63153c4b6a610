// What a rank gives to a planned call other than an allreduce, and where the result goes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "horovod_opt/csrc/core/plan/plan.h"
#include "horovod_opt/csrc/core/reduction/bucket_reduction.h"

namespace horovod_opt {

struct ExchangedCall {
  Collective collective = Collective::kAllgather;  // any but kAllreduce
  const char* data = nullptr;
  std::int64_t rows = 0, row_bytes = 0;  // of a broadcast: one row
  int root = 0;                          // of a broadcast: rank of the job
  bool joined = false;  // this rank has, and gives nothing: no rank gets a result
  // Memory for a result of so many rows, which stays as long as this; nullptr: there is none, and
  // who has made the call knows why. A broadcast and a reducescatter always have it, but a broadcast
  // writes nothing on its root. By the thread of the exchanges or of the planned path.
  std::function<std::shared_ptr<char>(std::int64_t rows)> output;
  // Of a reducescatter:
  Arithmetic arithmetic{1, nullptr, nullptr};
  double prescale = 1, postscale = 1;
};

// Of the sum that a reducescatter of `rows` rows gives to `rank` of `ranks`: the first ranks have
// one more if they cannot be divided equally, as in upstream's ReducescatterOp.
constexpr std::int64_t RowsOf(std::int64_t rows, int rank, int ranks) {
  return rows / ranks + (rank < rows % ranks ? 1 : 0);
}

}  // namespace horovod_opt
