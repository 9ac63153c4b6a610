// Static core partitioning, mode scp (dissertation 6.3.3): each rank's background thread has one of
// the rank's cores to itself, and all other threads of the process have the others. Which cores
// these are follows in core/cores/partition.h; core/cores/affinity.h pins the threads.
#pragma once

#include <string>
#include <vector>

#include "horovod_opt/csrc/binding/base/state.h"

namespace horovod {
namespace common {
class Controller;
}
}  // namespace horovod

namespace horovod_opt {

// CPU affinity masks that the launcher gave the ranks of this rank's node, by local rank.
// Collective over all ranks of the job.
std::vector<std::vector<int>> NodeMasks(const State& state,
                                        horovod::common::Controller& controller);

// Mode auto: whether every rank of the job has a core to spare for its background thread.
// Collective.
bool HasCoresToSpare(State& state, horovod::common::Controller& controller);

// Splits the node's cores among its ranks and pins this process. Returns "" or why this rank
// cannot. Collective.
std::string ApplyPartition(State& state, horovod::common::Controller& controller);

// Gives every thread back the CPUs that the launcher gave the process.
void UndoPartition(State& state);

}  // namespace horovod_opt
