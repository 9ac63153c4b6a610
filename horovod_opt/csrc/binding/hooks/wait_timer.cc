#include "horovod_opt/csrc/binding/hooks/wait_timer.h"

#include "horovod_opt/csrc/binding/base/state.h"

namespace horovod_opt {

WaitTimer::~WaitTimer() {
  GlobalState().counters.AddWait(std::chrono::steady_clock::now() - start_);
}

}  // namespace horovod_opt
