// Groups connected by Gloo.
#pragma once

#include <memory>

#include "horovod_opt/csrc/binding/topo/cross_nodes.h"

namespace horovod_opt {

// Collective.
std::unique_ptr<CrossNodes> ConnectWithGloo(horovod::common::HorovodGlobalState& horovod,
                                            const Groups& groups);

}  // namespace horovod_opt
