// What users read on stderr.
#pragma once

#include <string>

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// "horovod-opt: <line>".
void Say(const std::string& line);

// The same on rank 0 alone, for all ranks.
void SayOnce(const horovod::common::HorovodGlobalState& horovod, const std::string& line);

}  // namespace horovod_opt
