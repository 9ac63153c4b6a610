// Notices that a step of TensorFlow has failed while a planned tensor of it is under way.
//
// TensorFlow waits for the collectives that a failed step has begun. Without a word to the plan,
// one of them could be in a bucket with another that will never arrive, and then nobody would ever
// hear of the failure.
#pragma once

#include "horovod_opt/csrc/binding/hooks/enqueue.h"

namespace horovod_opt {

// `Context`: tensorflow::OpKernelContext, which lives until the operation is done.
template <class Context>
class StepWatch {
 public:
  // `key` as for EnqueueTensorAllreduce().
  StepWatch(Context* context, std::int64_t key)
      : manager_(key == 0 ? nullptr : context->cancellation_manager()) {
    if (manager_ == nullptr) return;
    token_ = manager_->get_cancellation_token();
    if (manager_->RegisterCallback(token_, [key] { StepFailed(key); })) return;
    manager_ = nullptr;
    StepFailed(key);  // already
  }

  // The tensor is reduced.
  void End() const {
    if (manager_ != nullptr) manager_->TryDeregisterCallback(token_);
  }

 private:
  using Manager = decltype(static_cast<Context*>(nullptr)->cancellation_manager());

  Manager manager_;
  decltype(static_cast<Manager>(nullptr)->get_cancellation_token()) token_{};
};

}  // namespace horovod_opt
