// Tensor table entry, as upstream calls it, of a tensor on its way through the planned path.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "horovod/common/common.h"
#include "horovod/common/global_state.h"
#include "horovod/common/message.h"
#include "horovod/common/operations.h"
#include "horovod_opt/csrc/binding/hooks/enqueue.h"
#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod_opt {

struct PlannedTensor : Arrival {
  // `of_call`: what upstream's queue gets if a call is negotiated after all.
  explicit PlannedTensor(horovod::common::TensorTableEntry of,
                         std::optional<horovod::common::Request> of_call = std::nullopt)
      : entry(std::move(of)), request(std::move(of_call)) {
    shape = entry.tensor->shape().to_vector();
    bytes = static_cast<std::int64_t>(entry.tensor->size());
    segment.in = entry.tensor->data();
    segment.bytes = bytes;
    has_data = entry.ready_event_list.size() == 0;
    // That of an allgather is allocated later.
    if (entry.output != nullptr) segment.out = const_cast<void*>(entry.output->data());
  }

  std::string Name() const override { return entry.tensor_name; }
  bool DataReady() override { return entry.ready_event_list.opt_ready_now(); }
  std::shared_ptr<void> Memory() const override {
    using Tensors = std::pair<std::shared_ptr<horovod::common::Tensor>,
                              std::shared_ptr<horovod::common::Tensor>>;
    return std::make_shared<Tensors>(entry.tensor, entry.output);
  }
  std::shared_ptr<char> AllocateResult(std::int64_t all) override {
    using horovod::common::Status;
    horovod::common::TensorShape result;
    result.AddDim(all);
    for (int i = 1; i < entry.tensor->shape().dims(); ++i) {
      result.AddDim(entry.tensor->shape().dim_size(i));
    }
    try {
      problem = entry.context->AllocateOutput(entry.output_index, result, &entry.output);
    } catch (const std::exception& failure) {
      problem = Status::UnknownError(failure.what());
    }
    if (!problem.ok()) return nullptr;
    return {entry.output, static_cast<char*>(const_cast<void*>(entry.output->data()))};
  }

  horovod::common::TensorTableEntry entry;
  std::optional<horovod::common::Request> request;
  horovod::common::Status problem;  // why it has no result
};

inline PlannedTensor& TensorOf(const ArrivalPtr& arrival) {
  return static_cast<PlannedTensor&>(*arrival);
}

// It begins with Horovod, by which hvd.elastic.run of TensorFlow tells its failures from others.
inline horovod::common::Status ReductionFailed(const std::string& why) {
  return horovod::common::Status::UnknownError("Horovod: a planned reduction failed: " + why);
}

// Hands a tensor to upstream that a plan had deferred or has given back in a vote, as if the plan
// had never had it, unless it is to fail. One that a graph had planned may be a call that is planned (recurring_calls.h).
// One that is not planned when it arrives goes to upstream at once: hooks/enqueue.h.
inline void BackToNegotiation(horovod::common::HorovodGlobalState& horovod, ArrivalPtr arrival) {
  using horovod::common::Status;
  PlannedTensor& tensor = TensorOf(arrival);
  auto& entry = tensor.entry;
  const auto callback = entry.callback;
  if (!arrival->failure.empty()) {
    entry.FinishWithCallback(Status::PreconditionError(arrival->failure));
    return;
  }
  const Status status = EnqueueAgain(horovod, std::move(arrival));
  if (!status.ok()) callback(status);
}

}  // namespace horovod_opt
