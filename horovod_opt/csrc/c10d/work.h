// A call of a group as c10d's Work: who waits for it performs it.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/ordered_calls/ordered_group.h"

namespace horovod_opt {

class CallWork final : public c10d::Work {
 public:
  using Future = c10::ivalue::Future;

  // `outputs`: what the future has, and result(). `title`, `inputs`: for PyTorch's profiler.
  CallWork(int rank, c10d::OpType type, std::shared_ptr<OrderedGroup> group, OrderedCallPtr call,
           std::vector<at::Tensor> outputs, const char* title,
           const std::vector<at::Tensor>& inputs)
      : Work(rank, type, IsProfiling() ? title : nullptr, inputs),
        group_(std::move(group)),
        call_(std::move(call)),
        outcome_(std::make_shared<Outcome>()) {
    outcome_->outputs = std::move(outputs);
    outcome_->end_of_event = std::move(recordFunctionEndCallback_);
    call_->ended = [outcome = outcome_](std::exception_ptr error) { outcome->End(error); };
  }

  bool isCompleted() override { return group_->HasEnded(call_); }

  bool isSuccess() const override { return group_->HasEnded(call_) && call_->error == nullptr; }

  std::exception_ptr exception() const override {
    return group_->HasEnded(call_) ? Translated(call_->error) : nullptr;
  }

  std::vector<at::Tensor> result() override { return outcome_->outputs; }

  bool wait(std::chrono::milliseconds timeout) override {
    group_->Await(call_, timeout);
    if (const std::exception_ptr error = Translated(call_->error)) std::rethrow_exception(error);
    return true;
  }

  void synchronize() override { wait(kNoTimeout); }

  c10::intrusive_ptr<Future> getFuture() override { return outcome_->GetFuture(); }

  std::uint64_t getSequencenumber() const override { return call_->number; }

 private:
  static bool IsProfiling() {
    return at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE).has_value();
  }

  // Lives as long as somebody may ask, and until the call has ended.
  class Outcome {
   public:
    std::vector<at::Tensor> outputs;
    std::function<void()> end_of_event;  // of the profiler, if it is on

    c10::intrusive_ptr<Future> GetFuture() {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!future_) {
        future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
        if (has_ended_) Mark(*future_);
      }
      return future_;
    }

    // The future's callbacks run with no lock held.
    void End(std::exception_ptr error) {
      if (end_of_event) end_of_event();
      c10::intrusive_ptr<Future> future;
      {
        std::lock_guard<std::mutex> lock(mutex_);
        has_ended_ = true;
        error_ = error;
        future = future_;
      }
      if (future) Mark(*future);
    }

   private:
    void Mark(Future& future) const {
      if (error_ != nullptr) {
        future.setError(Translated(error_));
      } else {
        future.markCompleted(c10::IValue(outputs));
      }
    }

    std::mutex mutex_;
    c10::intrusive_ptr<Future> future_;
    bool has_ended_ = false;
    std::exception_ptr error_;
  };

  static std::exception_ptr Translated(std::exception_ptr error) {
    if (error == nullptr) return nullptr;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& problem) {
      return std::make_exception_ptr(c10::DistBackendError(
          {__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, problem.what()));
    }
  }

  const std::shared_ptr<OrderedGroup> group_;
  const OrderedCallPtr call_;
  const std::shared_ptr<Outcome> outcome_;
};

}  // namespace horovod_opt
