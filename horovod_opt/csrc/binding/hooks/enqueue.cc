#include "horovod_opt/csrc/binding/hooks/enqueue.h"

#include <utility>

#include "horovod/common/operations.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/topo/planned_tensor.h"
#include "horovod_opt/csrc/binding/topo/topo.h"

namespace horovod_opt {
namespace {

thread_local std::int64_t next_key = 0;

using horovod::common::ReduceOp;
using horovod::common::Status;

static_assert(kMainMemory == CPU_DEVICE_ID, "one number for main memory");

std::string Obstacle(std::int32_t process_set_id, ReduceOp reduce_op) {
  if (process_set_id != 0) return "it belongs to another process set";
  if (reduce_op == ReduceOp::ADASUM) return "it is reduced by Adasum";
  return "";
}

}  // namespace

Status EnqueueTensorAllreduce(std::int64_t key, std::shared_ptr<horovod::common::OpContext> context,
                              std::shared_ptr<horovod::common::Tensor> tensor,
                              std::shared_ptr<horovod::common::Tensor> output,
                              horovod::common::ReadyEventList ready_event_list, std::string name,
                              int device, horovod::common::StatusCallback callback,
                              ReduceOp reduce_op, double prescale_factor, double postscale_factor,
                              std::int32_t process_set_id) {
  Topo* topo = key == 0 ? nullptr : GlobalState().topo.load(std::memory_order_acquire);
  if (topo != nullptr) {
    auto planned = std::make_unique<PlannedTensor>();
    planned->reduction = {tensor->dtype(), reduce_op, prescale_factor, postscale_factor, device};
    auto& entry = planned->entry;
    entry.tensor_name = name;
    entry.context = context;
    entry.tensor = tensor;
    entry.output = output;
    entry.ready_event_list = ready_event_list;
    entry.device = device;
    entry.callback = callback;
    entry.process_set_id = process_set_id;
    const Reduction reduction = planned->reduction;
    planned->shape = tensor->shape().to_vector();
    ArrivalPtr arrival = std::move(planned);
    switch (topo->plans().Arrive(key, tensor->size(), reduction,
                                 Obstacle(process_set_id, reduce_op), arrival)) {
      case Route::kPlanned:
        return Status::OK();
      case Route::kDeferred:
        topo->RequestRound();
        return Status::OK();
      case Route::kOverlaps:
        return horovod::common::DUPLICATE_NAME_ERROR;
      case Route::kNegotiated:
        break;
    }
  }
  return horovod::common::EnqueueTensorAllreduce(
      std::move(context), std::move(tensor), std::move(output), std::move(ready_event_list),
      std::move(name), device, std::move(callback), reduce_op, prescale_factor, postscale_factor,
      process_set_id);
}

void StepFailed(std::int64_t key) {
  Topo* topo = GlobalState().topo.load(std::memory_order_acquire);
  if (topo != nullptr) topo->plans().StepFailed(key);
}

void UseKey(std::int64_t key) { next_key = key; }

std::int64_t TakeKey() { return std::exchange(next_key, 0); }

bool WaitsAsleep() { return GlobalState().settings.mode != 0; }

void RequestAdded() {
  if (Topo* topo = GlobalState().topo.load(std::memory_order_acquire)) topo->RequestRound();
}

void Joining(std::int32_t process_set_id) {
  Topo* topo = GlobalState().topo.load(std::memory_order_acquire);
  if (topo != nullptr && process_set_id == 0) topo->plans().Join();
}

}  // namespace horovod_opt
