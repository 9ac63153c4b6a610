// Allgather, broadcast and reduce-scatter, planned, of one tensor each: through the memory of the
// group, or among several groups.
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

// All ranks of a group, as one of them sees it.
struct GroupCollectives {
  NodeCollectives& node;
  const int rank, ranks;
  const std::atomic<bool>& stop;
};

// Performs the call in `work`. `status` is what this rank's tensor gets: an error, as in mode off,
// if a rank has joined. False and exceptions as of NodeCollectives.
bool PerformCall(const GroupCollectives& group, Work& work, std::uint64_t tag, WaitCounts& counts,
                 horovod::common::Status& status);

// The same call for InternodeBuckets. If there is no memory for the output, the tensor's `problem`
// says why.
InternodeCall CallOf(const CompleteBucket& bucket);

// What the tensors of a call get that a joined rank is missing in.
horovod::common::Status Incomplete(const Work& work);

}  // namespace horovod_opt
