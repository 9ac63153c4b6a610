// Where a tensor that waited for the ranks' vote goes back to negotiation. One that is known not to be
// planned stays with upstream at once: hooks/enqueue.h.
#pragma once

#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod_opt {

// Hands it to upstream's queue, as if the plan had never had it.
void BackToNegotiation(ArrivalPtr arrival);

}  // namespace horovod_opt
