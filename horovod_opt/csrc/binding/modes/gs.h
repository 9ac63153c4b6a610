// Mode gs, global sleep (dissertation 6.2.4 and 6.3.1, figures 6.9 and 6.11): now and then all ranks
// sleep equally long before the next cycle, the shortest time that any of them has left.
//
// A rank that wakes late makes the others wait for it in the negotiation. Their cycle then took
// longer than the cycle time, so they do not sleep before the next one, while the late rank does and
// is late again. Sleeping the minimum over all ranks ends this after at most HOROVOD_OPT_GS_INTERVAL
// cycles.
#pragma once

#include <chrono>

#include "horovod_opt/csrc/binding/base/state.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// How long to sleep now. `local` is what is left of the cycle time. Collective.
std::chrono::nanoseconds GlobalSleepTime(State& state,
                                         horovod::common::HorovodGlobalState& horovod,
                                         std::chrono::nanoseconds local);

}  // namespace horovod_opt
