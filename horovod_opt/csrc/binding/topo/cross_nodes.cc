#include "horovod_opt/csrc/binding/topo/cross_nodes.h"

#include <exception>
#include <utility>

#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"

#if HAVE_MPI
#include "horovod_opt/csrc/binding/topo/mpi_cross_nodes.h"
#endif
#if HAVE_GLOO
#include "horovod_opt/csrc/binding/topo/gloo_cross_nodes.h"
#endif

namespace horovod_opt {

using horovod::common::DataType;
using horovod::common::HorovodGlobalState;
using horovod::common::LibType;
using horovod::common::ReduceOp;

std::unique_ptr<CrossNodes> CrossNodes::Connect(HorovodGlobalState& horovod, const Groups& groups,
                                                std::string& error) {
  std::unique_ptr<CrossNodes> connected;
  std::string problem;
  try {
#if HAVE_MPI
    if (horovod.control_operation == LibType::MPI) connected = ConnectWithMpi(horovod, groups);
#endif
#if HAVE_GLOO
    if (horovod.control_operation == LibType::GLOO) connected = ConnectWithGloo(horovod, groups);
#endif
  } catch (const std::exception& failure) {
    problem = failure.what();
  }
  error = FirstProblem(*horovod.global_controller, problem);
  return error.empty() ? std::move(connected) : nullptr;
}

template <class Collective>
bool CrossNodes::Attempt(const Collective& collective) {
  if (closed_) return false;
  try {
    return collective();
  } catch (const std::exception& failure) {
    if (!closed_) problem_ = failure.what();
    return false;
  }
}

bool CrossNodes::And(std::vector<std::uint64_t>& words) {
  return Attempt([&] { return DoAnd(words); });
}

bool CrossNodes::Allreduce(void* data, std::int64_t count, DataType dtype, ReduceOp reduce_op) {
  return Attempt([&] { return DoAllreduce(data, count, dtype, reduce_op); });
}

}  // namespace horovod_opt
