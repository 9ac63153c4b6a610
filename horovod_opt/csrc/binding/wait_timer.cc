#include "wait_timer.h"

#include "state.h"

namespace horovod_opt {

WaitTimer::~WaitTimer() {
  GlobalState().counters.AddWait(std::chrono::steady_clock::now() - start_);
}

}  // namespace horovod_opt
