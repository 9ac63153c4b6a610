// What users read on stderr.
#pragma once

#include <string>

namespace horovod {
namespace common {
class Controller;
}
}  // namespace horovod

namespace horovod_opt {

// "horovod-opt: <line>".
void Say(const std::string& line);

// The same on the first rank alone, for all ranks of the controller.
void SayOnce(const horovod::common::Controller& controller, const std::string& line);

}  // namespace horovod_opt
