// The address by which Gloo's other ranks reach this one.
#pragma once

#include <string>

namespace gloo {
class Context;
}

namespace horovod_opt {

// Numeric. Throws std::runtime_error if Gloo does not tell.
std::string GlooAddress(const gloo::Context& gloo);

}  // namespace horovod_opt
