#include "horovod_opt/csrc/binding/hooks/enqueue.h"

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "horovod/common/global_state.h"
#include "horovod/common/group_table.h"
#include "horovod/common/operations.h"
#include "horovod/common/process_set.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/modes/topo/call.h"
#include "horovod_opt/csrc/binding/modes/topo/objection.h"
#include "horovod_opt/csrc/binding/modes/topo/topo.h"
#include "horovod_opt/csrc/binding/modes/topo/unnamed_call.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"
#include "horovod_opt/csrc/core/elements/arithmetic.h"
#include "horovod_opt_abi.h"

namespace horovod_opt {
namespace {

thread_local bool calls_are_planned = true;
// Upstream makes the entry that is marked, between here and Enqueue().
thread_local bool is_given_back = false;

using horovod::common::DataType;
using horovod::common::HorovodGlobalState;
using horovod::common::ProcessSet;
using horovod::common::ReduceOp;
using horovod::common::Request;
using horovod::common::Status;
using horovod::common::TensorTableEntry;

static_assert(kMainMemory == CPU_DEVICE_ID, "one number for main memory");

// Plans name types and operations by the numbers of graph_analysis/reductions.py.
#define HOROVOD_OPT_CHECK(name, number, bytes) \
  static_assert(DataType::HOROVOD_##name == number, "upstream has another number");
HOROVOD_OPT_DTYPES(HOROVOD_OPT_CHECK)
#undef HOROVOD_OPT_CHECK
#define HOROVOD_OPT_CHECK(name, number, words) \
  static_assert(ReduceOp::name == number, "upstream has another number");
HOROVOD_OPT_REDUCE_OPS(HOROVOD_OPT_CHECK)
#undef HOROVOD_OPT_CHECK
static_assert(data_type::kUint8 == DataType::HOROVOD_UINT8 &&
                  data_type::kInt8 == DataType::HOROVOD_INT8 &&
                  data_type::kInt32 == DataType::HOROVOD_INT32 &&
                  data_type::kInt64 == DataType::HOROVOD_INT64 &&
                  data_type::kFloat16 == DataType::HOROVOD_FLOAT16 &&
                  data_type::kFloat32 == DataType::HOROVOD_FLOAT32 &&
                  data_type::kFloat64 == DataType::HOROVOD_FLOAT64 &&
                  data_type::kBfloat16 == DataType::HOROVOD_BFLOAT16,
              "the core has another number");
static_assert(reduce_op::kAverage == ReduceOp::AVERAGE && reduce_op::kSum == ReduceOp::SUM &&
                  reduce_op::kAdasum == ReduceOp::ADASUM && reduce_op::kMin == ReduceOp::MIN &&
                  reduce_op::kMax == ReduceOp::MAX && reduce_op::kProduct == ReduceOp::PRODUCT,
              "the core has another number");

std::string Obstacle(std::int32_t process_set_id, int device, ReduceOp reduce_op) {
  if (process_set_id != 0 && device != CPU_DEVICE_ID) {
    return "it is on a GPU, and belongs to process set " + std::to_string(process_set_id);
  }
  if (reduce_op == ReduceOp::ADASUM) return "it is reduced by Adasum";
  return "";
}

// The path has the tensor, or refuses it.
Status StatusOf(Route route, Topo& topo, const ArrivalPtr& arrival) {
  if (route == Route::kOverlaps) return horovod::common::DUPLICATE_NAME_ERROR;
  if (route == Route::kAbandoned) return Status::PreconditionError(arrival->failure);
  if (route == Route::kDeferred) topo.RequestRound();
  return Status::OK();
}

// Upstream tells a group's caller how the tensor ended that ended last. If another one has failed,
// it ends as that.
void KeepFirstError(std::vector<TensorTableEntry>& entries) {
  struct Group {
    std::mutex mutex;
    std::size_t under_way = 0;
    std::optional<Status> error;
  };
  const auto group = std::make_shared<Group>();
  group->under_way = entries.size();
  for (TensorTableEntry& entry : entries) {
    entry.callback = [group, callback = std::move(entry.callback)](const Status& status) {
      // Upstream counts its calls, so the last one here has to be the last one there.
      const std::lock_guard<std::mutex> guard(group->mutex);
      if (!status.ok() && !group->error) group->error = status;
      const bool is_last = --group->under_way == 0;
      callback(is_last && group->error ? *group->error : status);
    };
  }
}

// The calls of a group go one by one; upstream has registered the group. What is not planned after
// all, which holds for all of them unless the plan is just about to end, is negotiated. `number`:
// as in Arrival.
Status EnqueueCalls(Topo& topo, PlanTable& plans, ProcessSet& process_set, const CallGroup& group,
                    std::vector<TensorTableEntry>& entries, std::vector<Request>& requests,
                    std::int64_t number) {
  const bool is_group = requests[0].group_id() != NULL_GROUP_ID;
  std::vector<std::string> names;
  for (const Request& request : requests) names.push_back(request.tensor_name());
  if (is_group) process_set.group_table.DeregisterGroups(names);
  std::vector<TensorTableEntry> negotiated;
  std::vector<Request> negotiated_requests;
  std::vector<std::string> negotiated_names;
  std::vector<std::int64_t> negotiated_keys;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    requests[i].set_group_id(NULL_GROUP_ID);
    const Call& call = group.calls[i];
    ArrivalPtr arrival = std::make_unique<PlannedTensor>(std::move(entries[i]), requests[i]);
    if (call.collective == Collective::kAllgather) arrival->rows = arrival->shape[0];
    arrival->shape = call.dims;
    arrival->bytes = call.Bytes();
    arrival->reduction = call.reduction;
    arrival->number = number;
    const Route route = plans.Arrive(group.keys[i], arrival);
    if (route == Route::kNegotiated) {
      negotiated.push_back(std::move(TensorOf(arrival).entry));
      negotiated_requests.push_back(requests[i]);
      negotiated_names.push_back(names[i]);
      negotiated_keys.push_back(group.keys[i]);
    } else if (const Status status = StatusOf(route, topo, arrival); !status.ok()) {
      return status;
    }
  }
  if (negotiated.empty()) return Status::OK();
  if (is_group && negotiated.size() == entries.size()) {
    const auto id = process_set.group_table.RegisterGroup(std::move(negotiated_names));
    for (Request& request : negotiated_requests) request.set_group_id(id);
  }
  const Status status =
      process_set.tensor_queue.AddToTensorQueueMulti(negotiated, negotiated_requests);
  for (std::size_t i = 0; !status.ok() && i < negotiated.size(); ++i) {
    const bool was_taken = negotiated[i].tensor == nullptr;
    if (!was_taken) plans.Refuse(negotiated_keys[i]);
  }
  return status;
}

// To upstream's queue, as if no plan knew of it.
Status EnqueueNegotiated(ArrivalPtr arrival) {
  PlannedTensor& tensor = TensorOf(arrival);
  auto& entry = tensor.entry;
  calls_are_planned = arrival->may_be_call;
  const Status status = horovod::common::EnqueueTensorAllreduce(
      entry.context, entry.tensor, entry.output, entry.ready_event_list, entry.tensor_name,
      entry.device, entry.callback, static_cast<ReduceOp>(arrival->reduction.reduce_op),
      arrival->reduction.prescale, arrival->reduction.postscale, entry.process_set_id);
  calls_are_planned = true;
  return status;
}

}  // namespace

Status EnqueueTensorAllreduce(PlannedKey planned_key,
                              std::shared_ptr<horovod::common::OpContext> context,
                              std::shared_ptr<horovod::common::Tensor> tensor,
                              std::shared_ptr<horovod::common::Tensor> output,
                              horovod::common::ReadyEventList ready_event_list, std::string name,
                              int device, horovod::common::StatusCallback callback,
                              ReduceOp reduce_op, double prescale_factor, double postscale_factor,
                              std::int32_t process_set_id) {
  const std::int64_t key = planned_key.key;
  Topo* topo = key == 0 ? nullptr : GlobalState().topo.load(std::memory_order_acquire);
  const auto plans = topo == nullptr ? nullptr : topo->PlansOf(process_set_id);
  if (plans != nullptr) {
    TensorTableEntry entry;
    entry.tensor_name = std::move(name);
    entry.context = std::move(context);
    entry.tensor = std::move(tensor);
    entry.output = std::move(output);
    entry.ready_event_list = std::move(ready_event_list);
    entry.device = device;
    entry.callback = std::move(callback);
    entry.process_set_id = process_set_id;
    ArrivalPtr arrival = std::make_unique<PlannedTensor>(std::move(entry));
    arrival->reduction = {TensorOf(arrival).entry.tensor->dtype(), reduce_op, prescale_factor,
                          postscale_factor, device};
    arrival->obstacle = Obstacle(process_set_id, device, reduce_op);
    arrival->step = planned_key.step;
    arrival->in_turn = planned_key.in_turn;
    const Route route = plans->Arrive(key, arrival);
    if (route != Route::kNegotiated) return StatusOf(route, *topo, arrival);
    const Status status = EnqueueNegotiated(std::move(arrival));
    if (!status.ok()) plans->Refuse(key);
    return status;
  }
  return horovod::common::EnqueueTensorAllreduce(
      std::move(context), std::move(tensor), std::move(output), std::move(ready_event_list),
      std::move(name), device, std::move(callback), reduce_op, prescale_factor, postscale_factor,
      process_set_id);
}

void StepOver(const std::vector<std::int64_t>& keys, std::int64_t step) {
  Topo* topo = GlobalState().topo.load(std::memory_order_acquire);
  if (topo == nullptr) return;
  for (const auto& [process_set, plans] : topo->AllPlans()) plans->StepOver(keys, step);
}

void LeaveOut(std::int64_t key, const std::string& reason) {
  Topo* topo = GlobalState().topo.load(std::memory_order_acquire);
  if (topo == nullptr) return;
  for (const auto& [process_set, plans] : topo->AllPlans()) plans->LeaveOut(key, reason);
}

Status EnqueueAgain(HorovodGlobalState& horovod, ArrivalPtr arrival) {
  PlannedTensor& tensor = TensorOf(arrival);
  if (tensor.request) {
    tensor.entry.opt_is_given_back = true;
    auto& queue = horovod.process_set_table.Get(tensor.entry.process_set_id).tensor_queue;
    return queue.AddToTensorQueue(tensor.entry, *tensor.request);
  }
  is_given_back = true;
  const Status status = EnqueueNegotiated(std::move(arrival));
  is_given_back = false;
  return status;
}

Status Enqueue(ProcessSet& process_set, std::vector<TensorTableEntry>& entries,
               std::vector<Request>& requests) {
  // Not for what callbacks send, if this is performed at once.
  const bool given_back = std::exchange(is_given_back, false);
  for (TensorTableEntry& entry : entries) entry.opt_is_given_back = given_back;
  if (entries.size() > 1) KeepFirstError(entries);
  Topo* topo = !calls_are_planned ? nullptr : GlobalState().topo.load(std::memory_order_acquire);
  if (topo != nullptr && IsUnnamed(requests[0].tensor_name())) {
    return EnqueueUnnamed(*topo, process_set, entries, requests, EnqueueCalls);
  }
  const auto plans = topo == nullptr ? nullptr : topo->PlansOf(entries[0].process_set_id);
  if (plans != nullptr) {
    const auto group = CallsOf(requests);
    if (group && plans->Knows(group->keys[0])) {
      return EnqueueCalls(*topo, *plans, process_set, *group, entries, requests, 0);
    }
  }
  return process_set.tensor_queue.AddToTensorQueueMulti(entries, requests);
}

Status Enqueue(ProcessSet& process_set, TensorTableEntry& entry, Request& request) {
  std::vector<TensorTableEntry> entries{std::move(entry)};
  std::vector<Request> requests{request};
  return Enqueue(process_set, entries, requests);
}

Status EnqueueJoin(ProcessSet& process_set, TensorTableEntry& entry, Request& request) {
  Topo* topo = GlobalState().topo.load(std::memory_order_acquire);
  if (topo != nullptr && entry.process_set_id == 0 && topo->Join(entry, request)) {
    return Status::OK();
  }
  return process_set.tensor_queue.AddToTensorQueue(entry, request);
}

bool WaitsAsleep() { return GlobalState().settings.mode != 0; }

bool SumsInPlace() { return GlobalState().topo.load(std::memory_order_acquire) != nullptr; }

bool MaySendLater(const TensorTableEntry& entry, const TensorTableEntry& queued,
                  bool others_wait) {
  return entry.opt_is_given_back || (IsOfObjection(queued) && !others_wait);
}

void RequestAdded() {
  if (Topo* topo = GlobalState().topo.load(std::memory_order_acquire)) topo->RequestRound();
}

}  // namespace horovod_opt
