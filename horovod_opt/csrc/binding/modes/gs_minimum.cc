#include "horovod_opt/csrc/binding/modes/gs_minimum.h"

#include <algorithm>
#include <cstdint>

#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/hooks/wait_timer.h"

#if HAVE_MPI
#include "horovod_opt/csrc/binding/modes/nbcs.h"
#endif
#if HAVE_GLOO
#include <gloo/allreduce.h>
#include <gloo/math.h>
#endif

namespace horovod_opt {

using horovod::common::HorovodGlobalState;
using horovod::common::LibType;

std::chrono::nanoseconds MinOverRanks(HorovodGlobalState& horovod, std::chrono::nanoseconds value) {
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

}  // namespace horovod_opt
