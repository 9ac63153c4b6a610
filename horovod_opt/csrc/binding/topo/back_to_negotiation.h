// Where a tensor goes back to negotiation that a plan had deferred or has given back in a vote. One
// that is not planned when it arrives goes to upstream at once: hooks/enqueue.h.
#pragma once

#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod_opt {

// Hands it to upstream's queue, as if the plan had never had it.
void BackToNegotiation(ArrivalPtr arrival);

}  // namespace horovod_opt
