#include "horovod_opt/csrc/binding/modes/topo/objection.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "horovod/common/common.h"
#include "horovod/common/controller.h"
#include "horovod/common/message.h"
#include "horovod/common/process_set.h"
#include "horovod/common/tensor_queue.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::ProcessSet;
using horovod::common::Request;
using horovod::common::Status;
using horovod::common::TensorQueue;
using horovod::common::TensorShape;
using horovod::common::TensorTableEntry;

// No tensor has it, not even in all but the first dimension, which an allgather does not compare.
const std::vector<std::int64_t> kNoShape{-1, -1, -1};

struct HeldCall {
  TensorTableEntry entry;
  Request request;
};

// In the place of a tensor.
class Objection : public horovod::common::Tensor {
 public:
  const DataType dtype() const override { return DataType::HOROVOD_UINT8; }
  const TensorShape shape() const override { return {}; }
  const void* data() const override { return nullptr; }
  std::int64_t size() const override { return 0; }

  bool Hold(TensorTableEntry& entry, Request& request) {
    if (held_) return false;
    held_ = HeldCall{std::move(entry), std::move(request)};
    return true;
  }

  // The objection has left the queue, which refuses the call if it has ended.
  void SendHeld(TensorQueue& queue) {
    if (!held_) return;
    const auto callback = held_->entry.callback;
    const Status status = queue.AddToTensorQueue(held_->entry, held_->request);
    if (!status.ok()) callback(status);
  }

 private:
  std::optional<HeldCall> held_;  // under the queue's lock as long as the objection is in it
};

}  // namespace

void Object(ProcessSet& process_set, int process_set_id, const std::string& name) {
  const auto objection = std::make_shared<Objection>();
  TensorTableEntry entry;
  entry.tensor_name = name;
  entry.tensor = entry.output = objection;
  entry.process_set_id = process_set_id;
  entry.callback = [objection, &queue = process_set.tensor_queue](const Status&) {
    objection->SendHeld(queue);
  };
  Request request;
  request.set_request_rank(process_set.controller->GetRank());
  request.set_request_type(Request::BROADCAST);
  request.set_tensor_type(DataType::HOROVOD_UINT8);
  request.set_tensor_name(name);
  request.set_device(CPU_DEVICE_ID);
  request.set_tensor_shape(kNoShape);
  process_set.tensor_queue.AddToTensorQueue(entry, request);
}

bool IsObjection(const Request& request) { return request.tensor_shape() == kNoShape; }

bool Hold(const TensorTableEntry& queued, TensorTableEntry& entry, Request& request) {
  const auto objection = dynamic_cast<Objection*>(queued.tensor.get());
  return objection != nullptr && objection->Hold(entry, request);
}

}  // namespace horovod_opt
