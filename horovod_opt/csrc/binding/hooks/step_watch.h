// Cancellation callback of TensorFlow's steps: notices that a step has failed while a planned
// tensor of it is under way.
//
// TensorFlow waits for the collectives that a failed step has begun. Without a word to the plan,
// one of them could be in a bucket with another that will never arrive, and then nobody would ever
// hear of the failure.
#pragma once

#include <cstdint>
#include <type_traits>

#include "horovod_opt/csrc/binding/hooks/enqueue.h"
#include "horovod_opt/csrc/core/plan/step_watches.h"

namespace horovod_opt {

// `Context`: tensorflow::OpKernelContext, which lives until the operation is done.
template <class Context>
class StepWatch {
 public:
  // `key` as for EnqueueTensorAllreduce().
  StepWatch(Context* context, std::int64_t key)
      : manager_(key == 0 ? nullptr : context->cancellation_manager()) {
    if (manager_ != nullptr && !Watches().Begin(manager_, key)) manager_ = nullptr;
  }

  // The tensor is reduced, or was not taken. A watch that did not end would be mistaken for one of
  // a later step, whose manager has the same address.
  void End() const {
    if (manager_ != nullptr) Watches().End(manager_);
  }

 private:
  using Manager =
      std::remove_pointer_t<decltype(static_cast<Context*>(nullptr)->cancellation_manager())>;

  // Never destroyed: threads of TensorFlow may outlive main().
  static StepWatches<Manager>& Watches() {
    static auto& watches = *new StepWatches<Manager>(&StepFailed);
    return watches;
  }

  Manager* manager_;
};

}  // namespace horovod_opt
