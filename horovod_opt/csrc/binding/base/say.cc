#include "horovod_opt/csrc/binding/base/say.h"

#include <iostream>

#include "horovod/common/controller.h"

namespace horovod_opt {

void Say(const std::string& line) { std::cerr << "horovod-opt: " + line + "\n" << std::flush; }

void SayOnce(const horovod::common::Controller& controller, const std::string& line) {
  if (controller.GetRank() == 0) Say(line);
}

}  // namespace horovod_opt
