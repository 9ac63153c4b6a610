// Where a tensor goes back to negotiation that a plan had deferred or has given back in a vote. One
// that is not planned when it arrives goes to upstream at once: hooks/enqueue.h.
#pragma once

#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// Hands it to upstream, as if the plan had never had it. One that a graph had planned may be a call
// that is planned (recurring_calls.h).
void BackToNegotiation(horovod::common::HorovodGlobalState& horovod, ArrivalPtr arrival);

}  // namespace horovod_opt
