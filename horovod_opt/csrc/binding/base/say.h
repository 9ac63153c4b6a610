// Lines for users on stderr.
#pragma once

#include <iostream>
#include <string>

#include "horovod/common/controller.h"

namespace horovod_opt {

// "horovod-opt: <line>".
inline void Say(const std::string& line) {
  std::cerr << "horovod-opt: " + line + "\n" << std::flush;
}

// The same on the first rank alone, for all ranks of the controller.
inline void SayOnce(const horovod::common::Controller& controller, const std::string& line) {
  if (controller.GetRank() == 0) Say(line);
}

}  // namespace horovod_opt
