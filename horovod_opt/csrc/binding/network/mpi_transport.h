// Messages by MPI.
#pragma once

#include <memory>

#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// Over a communicator of its own. Throws std::runtime_error. Collective.
std::unique_ptr<Transport> ConnectWithMpi(horovod::common::HorovodGlobalState& horovod,
                                          const Groups& groups);

}  // namespace horovod_opt
