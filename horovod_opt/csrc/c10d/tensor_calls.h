// Collectives on tensors as calls of a group. Tensors live in the call, until it has ended.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "horovod_opt/csrc/c10d/element_types.h"
#include "horovod_opt/csrc/core/ordered_calls/ordered_group.h"

namespace horovod_opt {
namespace tensor_calls {

using Tensors = std::vector<at::Tensor>;

// Of dense tensors of one type, in main memory. Those that are not contiguous are copied.
OrderedCallPtr Allreduce(const Tensors& tensors, const c10d::ReduceOp& operation,
                         const ReductionOf& reduction);
// Of the sum the root alone is given one.
OrderedCallPtr Reduce(const at::Tensor& tensor, const c10d::ReduceOp& operation,
                      const ReductionOf& reduction, int root, bool is_root);
OrderedCallPtr Broadcast(const at::Tensor& tensor, int root);
// `output` has as many times the elements of `input` as there are ranks.
OrderedCallPtr Allgather(const at::Tensor& output, const at::Tensor& input);
OrderedCallPtr Allgather(const Tensors& outputs, const at::Tensor& input);
// `input` has as many times the elements of `output`.
OrderedCallPtr ReduceScatter(const at::Tensor& output, const at::Tensor& input,
                             const c10d::ReduceOp& operation, const ReductionOf& reduction);
OrderedCallPtr Barrier();
// By rank: what this one gives to it, and gets. Pieces may be of any size.
OrderedCallPtr Alltoall(const Tensors& outputs, const Tensors& inputs);
// `outputs`: by rank, on the root alone; `inputs` of a scatter likewise.
OrderedCallPtr Gather(const Tensors& outputs, const at::Tensor& input, int root, int ranks);
OrderedCallPtr Scatter(const at::Tensor& output, const Tensors& inputs, int root, int ranks);

}  // namespace tensor_calls
}  // namespace horovod_opt
