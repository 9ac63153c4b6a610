#include "horovod_opt/csrc/binding/base/say.h"

#include <iostream>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"

namespace horovod_opt {

void Say(const std::string& line) { std::cerr << "horovod-opt: " + line + "\n" << std::flush; }

void SayOnce(const horovod::common::HorovodGlobalState& horovod, const std::string& line) {
  if (horovod.global_controller->GetRank() == 0) Say(line);
}

}  // namespace horovod_opt
