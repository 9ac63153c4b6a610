// End of TensorFlow's steps: a plan hears that a step is over whose planned tensors it has.
//
// TensorFlow waits for the collectives that a failed step has begun. Without a word to the plan,
// one of them could be in a bucket with another that will never arrive, and then nobody would ever
// hear of the failure.
#pragma once

#include <cstdint>
#include <type_traits>

#include "horovod_opt/csrc/binding/hooks/enqueue.h"
#include "horovod_opt/csrc/binding/hooks/step_watches.h"

namespace horovod_opt {

// Before a tensor is handed over: its key with the step of `context`, a
// tensorflow::OpKernelContext.
template <class Context>
PlannedKey KeyInStep(Context* context, std::int64_t key) {
  using Manager = std::remove_pointer_t<decltype(context->cancellation_manager())>;
  // Never destroyed: threads of TensorFlow may outlive main().
  static auto& watches = *new StepWatches<Manager>(&StepOver);
  Manager* const manager = context->cancellation_manager();
  if (key == 0 || manager == nullptr) return key;
  watches.Add(manager, key, context->step_id());
  return {key, context->step_id()};
}

}  // namespace horovod_opt
