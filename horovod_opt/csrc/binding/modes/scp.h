// Mode scp: one core for the background thread, the others for the rest of the process.
#pragma once

#include <string>

#include "horovod_opt/csrc/binding/base/state.h"

namespace horovod {
namespace common {
class Controller;
}
}  // namespace horovod

namespace horovod_opt {

// Mode auto: whether every rank of the job has so many cores that the background thread may have
// one. Collective.
bool HasCoresToSpare(State& state, horovod::common::Controller& controller);

// Splits the node's cores among its ranks and pins this process. Returns "" or why this rank
// cannot. Collective.
std::string ApplyPartition(State& state, horovod::common::Controller& controller);

// Gives every thread back the CPUs that the launcher gave the process.
void UndoPartition(State& state);

}  // namespace horovod_opt
