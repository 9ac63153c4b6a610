// Mode gs, global sleep (dissertation 6.2.4 and 6.3.1, figures 6.9 and 6.11): in every
// HOROVOD_OPT_GS_INTERVAL-th cycle all ranks sleep equally long, the shortest time that any of them
// has left of its cycle time.
//
// A rank that wakes late makes the others wait for it in the negotiation. Their cycle then took
// longer than the cycle time, so they do not sleep before the next one, while the late rank does
// and is late again. Sleeping the minimum over all ranks ends this.
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
