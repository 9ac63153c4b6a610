// The address by which other nodes reach this one, where nobody else has found it out.
#pragma once

#include <string>

namespace horovod_opt {

// A numeric IPv4 address. `interfaces`: names of which the first that has one counts, separated by
// commas, as in MPI's and NCCL's settings; without one, the only interface that is up and leads to
// other machines (not the loopback, and none that containers or virtual machines of this one are
// behind). Throws std::runtime_error if there is none or several.
std::string OwnAddress(const std::string& interfaces);

}  // namespace horovod_opt
