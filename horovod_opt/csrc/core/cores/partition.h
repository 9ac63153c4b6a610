// Which CPUs the background thread of each rank of one node gets in mode scp (static core
// partitioning, dissertation 6.3.3), and which the rest of its process.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace horovod_opt {

// CPU numbers, sorted; neither is empty, and they have no physical core in common.
struct RankCpus {
  std::vector<int> background;
  std::vector<int> rest;
};

struct Partition {
  std::vector<RankCpus> ranks;  // one per local rank, empty if there is an error
  std::string error;            // for people: numbers and remedy; "" if there is none
};

// masks[r]: the CPUs that the launcher gave local rank r. core_of: CPU -> physical core, equal
// for SMT siblings; a CPU that is missing counts as a core of its own. core_index: which core of
// its share the background thread gets, in the order of core numbers; negative counts from the
// end.
//
// Ranks with equal masks share them evenly by physical core, contiguously; leftover cores go to the
// lower local ranks. Masks that overlap without being equal are an error, as is a share of fewer
// than two cores. The answer depends on the arguments alone, so ranks that gathered the same masks
// agree.
Partition PartitionNode(const std::vector<std::vector<int>>& masks,
                        const std::map<int, int>& core_of, int core_index);

}  // namespace horovod_opt
