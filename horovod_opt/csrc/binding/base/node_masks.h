// Which CPUs the launcher gave the ranks of this rank's node.
#pragma once

#include <vector>

namespace horovod {
namespace common {
class Controller;
}
}  // namespace horovod

namespace horovod_opt {

struct State;

// By local rank. All ranks of the job call it.
std::vector<std::vector<int>> NodeMasks(const State& state,
                                        horovod::common::Controller& controller);

}  // namespace horovod_opt
