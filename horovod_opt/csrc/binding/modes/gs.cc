#include "horovod_opt/csrc/binding/modes/gs.h"

#include "horovod_opt/csrc/binding/modes/gs_minimum.h"

namespace horovod_opt {

std::chrono::nanoseconds GlobalSleepTime(State& state,
                                         horovod::common::HorovodGlobalState& horovod,
                                         std::chrono::nanoseconds local) {
  return state.global_sleep.Next(
      local, [&](std::chrono::nanoseconds value) { return MinOverRanks(horovod, value); });
}

}  // namespace horovod_opt
