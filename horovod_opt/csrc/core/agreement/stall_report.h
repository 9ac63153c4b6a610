// Stall report: which planned tensors all ranks together wait for, and what for. A tensor that some
// ranks have and others do not is late there; a bucket that all ranks have whole waits for its sum,
// so for the network or a device.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod_opt {

// What one rank says of the buckets in which it has something. Lines: tensors, and buckets that are
// complete, with the seconds since then.
std::string StallRow(const std::vector<PlanTable::LateBucket>& late,
                     PlanTable::Clock::time_point now);

// For users: a line for each tensor that some ranks miss, with these ranks, and one for each bucket
// that has waited for its sum for at least `limit`; each begins with a line break. `rows` by rank,
// of all ranks.
std::string DescribeStall(const TextByRank& rows, std::chrono::seconds limit);

}  // namespace horovod_opt
