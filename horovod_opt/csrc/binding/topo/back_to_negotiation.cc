#include "horovod_opt/csrc/binding/topo/back_to_negotiation.h"

#include "horovod/common/global_state.h"
#include "horovod/common/operations.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"

namespace horovod_opt {

using horovod::common::HorovodGlobalState;
using horovod::common::ReduceOp;
using horovod::common::Status;

void BackToNegotiation(HorovodGlobalState& horovod, ArrivalPtr arrival) {
  PlannedTensor& tensor = TensorOf(arrival);
  auto& entry = tensor.entry;
  const auto callback = entry.callback;
  if (tensor.request) {
    auto& queue = horovod.process_set_table.Get(entry.process_set_id).tensor_queue;
    const Status status = queue.AddToTensorQueue(entry, *tensor.request);
    if (!status.ok()) callback(status);
    return;
  }
  const Status status = horovod::common::EnqueueTensorAllreduce(
      entry.context, entry.tensor, entry.output, entry.ready_event_list, entry.tensor_name,
      entry.device, callback, static_cast<ReduceOp>(tensor.reduction.reduce_op),
      tensor.reduction.prescale, tensor.reduction.postscale, entry.process_set_id);
  if (!status.ok()) callback(status);
}

}  // namespace horovod_opt
