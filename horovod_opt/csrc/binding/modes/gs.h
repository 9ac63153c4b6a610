// Global sleep, mode gs (dissertation 6.2.4 and 6.3.1, figures 6.9 and 6.11): in every
// HOROVOD_OPT_GS_INTERVAL-th cycle all ranks sleep equally long, the shortest time that any of them
// has left of its cycle time.
//
// A rank that wakes late makes the others wait for it in the negotiation. Their cycle then took
// longer than the cycle time, so they do not sleep before the next one, while the late rank does
// and is late again. Sleeping the minimum over all ranks ends this.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/hooks/wait_timer.h"

#if HAVE_MPI
#include "horovod_opt/csrc/binding/modes/nbcs.h"
#endif
#if HAVE_GLOO
#include <gloo/allreduce.h>
#include <gloo/math.h>
#endif

namespace horovod_opt {

// The minimum of `value` over all ranks, by the controller's library. Collective.
inline std::chrono::nanoseconds MinOverRanks(horovod::common::HorovodGlobalState& horovod,
                                             std::chrono::nanoseconds value) {
  using horovod::common::LibType;
  std::int64_t minimum = value.count();
  auto& process_set = horovod.process_set_table.Get(0);
#if HAVE_MPI
  if (horovod.control_operation == LibType::MPI) {
    mpi::Allreduce(MPI_IN_PLACE, &minimum, 1, MPI_INT64_T, MPI_MIN,
                   process_set.mpi_context.mpi_comm);
  }
#endif
#if HAVE_GLOO
  if (horovod.control_operation == LibType::GLOO) {
    WaitTimer timer;
    gloo::AllreduceOptions options(process_set.gloo_context.ctx);
    options.setOutput(&minimum, 1);
    void (*reduce)(void*, const void*, const void*, std::size_t) = &gloo::min<std::int64_t>;
    options.setReduceFunction(gloo::AllreduceOptions::Func(reduce));
    gloo::allreduce(options);
  }
#endif
  return std::chrono::nanoseconds(minimum);
}

// How long to sleep now. `local` is what is left of the cycle time. Collective.
inline std::chrono::nanoseconds GlobalSleepTime(State& state,
                                                horovod::common::HorovodGlobalState& horovod,
                                                std::chrono::nanoseconds local) {
  return state.global_sleep.Next(
      local, [&](std::chrono::nanoseconds value) { return MinOverRanks(horovod, value); });
}

}  // namespace horovod_opt
