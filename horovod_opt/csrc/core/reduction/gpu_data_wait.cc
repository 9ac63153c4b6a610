#include "horovod_opt/csrc/core/reduction/gpu_data_wait.h"

#include "horovod_opt/csrc/core/waiting/backoff.h"

namespace horovod_opt {
namespace {

constexpr std::chrono::microseconds kFirstSleep(20), kLongestSleep(500);

}  // namespace

bool AwaitData(const std::vector<ArrivalPtr>& arrivals, const std::atomic<bool>& stop) {
  Backoff backoff(0, kFirstSleep, kLongestSleep);
  for (const ArrivalPtr& arrival : arrivals) {
    if (arrival == nullptr) continue;
    backoff.Reset();
    while (!arrival->DataReady()) {
      if (stop) return false;
      backoff.Pause();
    }
  }
  return true;
}

}  // namespace horovod_opt
