// Enqueueing of collectives: where a tensor enters, the planned path or upstream's queue.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "horovod/common/common.h"
#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod {
namespace common {
struct ProcessSet;
class Request;
struct HorovodGlobalState;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

// Names a collective in this process' graphs; 0: it has no name there.
struct PlannedKey {
  PlannedKey(std::int64_t key_of = 0, std::int64_t step_of = 0, bool is_in_turn = false)
      : key(key_of), step(step_of), in_turn(is_in_turn) {}
  std::int64_t key;
  std::int64_t step;  // this and the next: see Arrival
  bool in_turn;
};

// Upstream's function of this name, with the same arguments after the first.
horovod::common::Status EnqueueTensorAllreduce(
    PlannedKey planned_key, std::shared_ptr<horovod::common::OpContext> context,
    std::shared_ptr<horovod::common::Tensor> tensor,
    std::shared_ptr<horovod::common::Tensor> output,
    horovod::common::ReadyEventList ready_event_list, std::string name, int device,
    horovod::common::StatusCallback callback, horovod::common::ReduceOp reduce_op,
    double prescale_factor, double postscale_factor, std::int32_t process_set_id);

// To upstream's queue: a tensor that a plan has given back. It waits there for one of its name, which
// may be of a step that this rank has left; its own caller was told that it is under way.
horovod::common::Status EnqueueAgain(horovod::common::HorovodGlobalState& horovod,
                                     ArrivalPtr arrival);

// A step that has handed over the tensors with these keys is over; others of it hardly ever arrive.
void StepOver(const std::vector<std::int64_t>& keys, std::int64_t step);

// The tensor with this key does not come on this rank; `reason`: for users.
void LeaveOut(std::int64_t key, const std::string& reason);

// Upstream has made the requests of a call, or of those of a group: they go to the planned path if
// it is planned, and to upstream's queue if not.
horovod::common::Status Enqueue(horovod::common::ProcessSet& process_set,
                                std::vector<horovod::common::TensorTableEntry>& entries,
                                std::vector<horovod::common::Request>& requests);
horovod::common::Status Enqueue(horovod::common::ProcessSet& process_set,
                                horovod::common::TensorTableEntry& entry,
                                horovod::common::Request& request);
// This rank joins.
horovod::common::Status EnqueueJoin(horovod::common::ProcessSet& process_set,
                                    horovod::common::TensorTableEntry& entry,
                                    horovod::common::Request& request);

// Whether a thread of the framework that waits for a tensor sleeps: in any mode but off.
bool WaitsAsleep();

// Whether a sum may take the memory of a tensor that nobody else reads: in mode topo.
bool SumsInPlace();

// Upstream's queue has `queued`, which has the name of the call `entry`, and perhaps others that
// wait for that. Whether this call waits, too; false: the name is its error. Under the queue's lock.
bool MaySendLater(const horovod::common::TensorTableEntry& entry,
                  const horovod::common::TensorTableEntry& queued, bool others_wait);

// Upstream's queue has a new request.
void RequestAdded();

}  // namespace horovod_opt
