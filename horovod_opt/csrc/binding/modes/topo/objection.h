// Deliberate mismatch, by which a rank makes the negotiation of a tensor fail that it will never
// send (contradictions.h): it sends a request under the tensor's name that goes with no other. Once
// all other ranks have sent theirs, upstream gives all of them its error for mismatches.
//
// Rule (with a test that fails without it): an objection gives way. This rank may have its own
// error, and go on to call the tensor as the others do, before its objection is answered: the call
// is held, and sent after the answer. Sent at once it would be part of what the objection makes
// fail, and refused, as upstream refuses two calls under one name, it would be an error of a
// correct call.
#pragma once

#include <string>

namespace horovod {
namespace common {
class Request;
struct ProcessSet;
struct TensorTableEntry;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

// Does nothing if this rank has sent the tensor in the meantime.
void Object(horovod::common::ProcessSet& process_set, int process_set_id, const std::string& name);

bool IsObjection(const horovod::common::Request& request);
bool IsOfObjection(const horovod::common::TensorTableEntry& entry);

}  // namespace horovod_opt
