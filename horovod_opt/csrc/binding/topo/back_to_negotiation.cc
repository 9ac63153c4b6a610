#include "horovod_opt/csrc/binding/topo/back_to_negotiation.h"

#include "horovod/common/operations.h"
#include "horovod_opt/csrc/binding/topo/planned_tensor.h"

namespace horovod_opt {

using horovod::common::ReduceOp;
using horovod::common::Status;

void BackToNegotiation(ArrivalPtr arrival) {
  PlannedTensor& tensor = TensorOf(arrival);
  auto& entry = tensor.entry;
  const auto callback = entry.callback;
  const Status status = horovod::common::EnqueueTensorAllreduce(
      entry.context, entry.tensor, entry.output, entry.ready_event_list, entry.tensor_name,
      entry.device, callback, static_cast<ReduceOp>(tensor.reduction.reduce_op),
      tensor.reduction.prescale, tensor.reduction.postscale, entry.process_set_id);
  if (!status.ok()) callback(status);
}

}  // namespace horovod_opt
