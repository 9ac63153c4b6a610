// Scoped timer: the time in which the background thread waits for other ranks.
#pragma once

#include <chrono>

#include "horovod_opt/csrc/binding/base/state.h"

namespace horovod_opt {

// Counts its lifetime. Stands at the top of every collective of the negotiation.
class WaitTimer {
 public:
  WaitTimer() : start_(std::chrono::steady_clock::now()) {}
  ~WaitTimer() { GlobalState().counters.AddWait(std::chrono::steady_clock::now() - start_); }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  std::chrono::steady_clock::time_point start_;
};

}  // namespace horovod_opt
