// Way of a call without a name into the planned path: in the lane that its number gives it
// (core/agreement/unnamed_calls.h). Where that is not planned, it is negotiated under upstream's
// name for it, which comes once.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "horovod_opt/csrc/binding/modes/topo/call.h"
#include "horovod_opt/csrc/core/agreement/unnamed_calls.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod {
namespace common {
struct ProcessSet;
class Status;
struct TensorTableEntry;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

class Topo;

// Sends the calls of a group that is planned; `number` is theirs, the same on every rank.
using EnqueuePlanned = horovod::common::Status (*)(
    Topo& topo, PlanTable& plans, horovod::common::ProcessSet& process_set, const CallGroup& group,
    std::vector<horovod::common::TensorTableEntry>& entries,
    std::vector<horovod::common::Request>& requests, std::int64_t number);

// Upstream has made the requests of a call without a name, or of those of a group.
horovod::common::Status EnqueueUnnamed(Topo& topo, horovod::common::ProcessSet& process_set,
                                       std::vector<horovod::common::TensorTableEntry>& entries,
                                       std::vector<horovod::common::Request>& requests,
                                       EnqueuePlanned enqueue_planned);

// Plans the lanes of a signature: the call that `group` describes is about to be performed on all
// ranks.
void PlanLanes(PlanTable& plans, UnnamedCalls& unnamed, const CallGroup& group);

// `line` tells users of a plan that was given up only to be made anew.
bool IsOfLanes(const std::string& line);

}  // namespace horovod_opt
