// Groups connected by MPI.
#pragma once

#include <memory>

#include "horovod_opt/csrc/binding/topo/cross_nodes.h"

namespace horovod_opt {

// Collective. Throws std::runtime_error where MPI may not be called by several threads at once.
std::unique_ptr<CrossNodes> ConnectWithMpi(horovod::common::HorovodGlobalState& horovod,
                                           const Groups& groups);

}  // namespace horovod_opt
