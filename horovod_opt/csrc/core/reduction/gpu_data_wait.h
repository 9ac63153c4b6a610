// Waiting for tensors that have been handed over before their data was there: a copy from a GPU may
// only have been started.
#pragma once

#include <atomic>
#include <vector>

#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod_opt {

// Returns once the data of every arrival is ready; false if `stop` was set before. Sleeps between
// two looks, 20 us at first and up to 0.5 ms: whoever copies tells nobody.
bool AwaitData(const std::vector<ArrivalPtr>& arrivals, const std::atomic<bool>& stop);

}  // namespace horovod_opt
