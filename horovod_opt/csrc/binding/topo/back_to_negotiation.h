// Where a tensor that is not planned goes back to negotiation.
#pragma once

#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod_opt {

// Hands it to upstream's queue, as if the plan had never had it.
void BackToNegotiation(ArrivalPtr arrival);

}  // namespace horovod_opt
