// Where mode gs computes the shortest sleep of all ranks.
#pragma once

#include <chrono>

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// The minimum of `value` over all ranks, by the controller's library. Collective.
std::chrono::nanoseconds MinOverRanks(horovod::common::HorovodGlobalState& horovod,
                                      std::chrono::nanoseconds value);

}  // namespace horovod_opt
