// In-place allreduce, in mode topo: a tensor of TensorFlow that nobody else reads holds its sum,
// too.
//
// A training step needs each gradient once, for its sum. In memory of its own a sum doubles what
// the step holds, and the kernel has to clear pages that the sum then overwrites.
#pragma once

#include "horovod_opt/csrc/binding/hooks/enqueue.h"

namespace horovod_opt {

// Allocates the output `index` of an allreduce, of the shape of that input. The caller must not
// hold the input meanwhile: it would be another reader. `Context`: tensorflow::OpKernelContext,
// `Tensor`: tensorflow::Tensor.
template <class Context, class Tensor>
auto AllocateResult(Context* context, int index, Tensor** output) {
  const auto& shape = context->input(index).shape();
  return SumsInPlace() ? context->forward_input_or_allocate_output({index}, index, shape, output)
                       : context->allocate_output(index, shape, output);
}

}  // namespace horovod_opt
