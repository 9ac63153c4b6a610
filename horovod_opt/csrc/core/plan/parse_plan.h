// The text in which Python hands over a plan.
#pragma once

#include <string>

#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {

// From tab-separated lines: "plan hash threshold process_set name", then for each slot "slot key
// bytes dtype reduce_op prescale postscale after name" (after: numbers with commas, or -), then for
// each bucket "bucket numbers". Throws std::invalid_argument that names the line.
Plan ParsePlan(const std::string& text);

}  // namespace horovod_opt
