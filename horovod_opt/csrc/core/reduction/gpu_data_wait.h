// Polling for copies from GPUs: waiting for tensors that have been handed over before their data
// was there: a copy from a GPU may only have been started.
#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "horovod_opt/csrc/core/plan/arrival.h"
#include "horovod_opt/csrc/core/waiting/backoff.h"

namespace horovod_opt {

// Returns once the data of every arrival is ready; false if `stop` was set before. Sleeps between
// two looks, 20 us at first and up to 0.5 ms: whoever copies tells nobody.
inline bool AwaitData(const std::vector<ArrivalPtr>& arrivals, const std::atomic<bool>& stop) {
  Backoff backoff(0, std::chrono::microseconds(20), std::chrono::microseconds(500));
  for (const ArrivalPtr& arrival : arrivals) {
    if (arrival == nullptr) continue;
    backoff.Reset();
    while (!arrival->HasData()) {
      if (stop) return false;
      backoff.Pause();
    }
  }
  return true;
}

}  // namespace horovod_opt
