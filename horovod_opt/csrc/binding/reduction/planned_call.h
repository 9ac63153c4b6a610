// Planned calls other than allreduce, of one tensor each: through the memory of the group, or among
// several groups.
#pragma once

#include <atomic>
#include <cstdint>

#include "horovod/common/common.h"
#include "horovod_opt/csrc/core/plan/arrival.h"
#include "horovod_opt/csrc/core/reduction/internode_buckets.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/reduction/small_bucket_path.h"
#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// Performs the call in `work` for rank `rank` of `ranks`, which are all of the group. `status` is
// what this rank's tensor gets: an error, as in mode off, if a rank has joined. False and
// exceptions as of NodeCollectives.
bool PerformCall(NodeCollectives& node, int rank, int ranks, Work& work, std::uint64_t tag,
                 const std::atomic<bool>& stop, WaitCounts& counts,
                 horovod::common::Status& status);

// The same call for InternodeBuckets. If there is no memory for the output, the tensor's `problem`
// says why.
InternodeCall CallOf(const CompleteBucket& bucket);

// What the tensors of a call get that a joined rank is missing in.
horovod::common::Status Incomplete(const Work& work);

}  // namespace horovod_opt
