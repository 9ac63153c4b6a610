// New buckets, from the order in which tensors were seen to arrive. Depth in the graph is a guess
// of when a gradient is ready; after a few iterations the ranks know.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {

// `times_us`: mean arrival of each slot after the start of its iteration. The slots are taken by
// time (a slot never before one that it depends on) and fused as long as they agree, do not depend
// on each other, stay below the plan's threshold, and none comes much later than the one before it.
// `left_out`: slots that are in none. The same on every rank for the same arguments.
Buckets RebuildBuckets(const Plan& plan, const std::vector<std::int64_t>& times_us,
                       const std::set<int>& left_out = {});

}  // namespace horovod_opt
