// How a rank makes the negotiation of a tensor fail that it will never send (contradictions.h): it
// sends a request under the tensor's name that goes with no other. Once all other ranks have sent
// theirs, upstream gives all of them its error for mismatches.
#pragma once

#include <string>

namespace horovod {
namespace common {
class Request;
struct ProcessSet;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

// Does nothing if this rank has sent the tensor in the meantime.
void Object(horovod::common::ProcessSet& process_set, int process_set_id, const std::string& name);

bool IsObjection(const horovod::common::Request& request);

}  // namespace horovod_opt
