#include "horovod_opt/csrc/binding/modes/topo/objection.h"

#include <cstdint>
#include <memory>
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
using horovod::common::TensorShape;
using horovod::common::TensorTableEntry;

// No tensor has it, not even in all but the first dimension, which an allgather does not compare.
const std::vector<std::int64_t> kNoShape{-1, -1, -1};

// In the place of a tensor.
class Objection : public horovod::common::Tensor {
 public:
  const DataType dtype() const override { return DataType::HOROVOD_UINT8; }
  const TensorShape shape() const override { return {}; }
  const void* data() const override { return nullptr; }
  std::int64_t size() const override { return 0; }
};

}  // namespace

void Object(ProcessSet& process_set, int process_set_id, const std::string& name) {
  TensorTableEntry entry;
  entry.tensor_name = name;
  entry.tensor = entry.output = std::make_shared<Objection>();
  entry.process_set_id = process_set_id;
  entry.callback = [](const Status&) {};
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

bool IsOfObjection(const TensorTableEntry& entry) {
  return dynamic_cast<Objection*>(entry.tensor.get()) != nullptr;
}

}  // namespace horovod_opt
