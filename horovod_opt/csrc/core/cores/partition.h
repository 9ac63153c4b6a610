// Static core partitioning (dissertation 6.3.3): how the cores of a node are divided among its
// ranks. In mode scp the background thread of each gets some, and the rest of its process the
// others.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace horovod_opt {

using Cpus = std::vector<int>;  // their numbers

// Where a thread of local rank `rank` stays that runs often, but for moments, so that those of
// different ranks are apart, as far as there are cores: its part of the cores that the launcher
// gave it and others with the same mask; where these are fewer than the ranks, one that it shares
// with as few as possible. masks[r]: the CPUs that the launcher gave local rank r. core_of: CPU ->
// physical core, equal for SMT siblings; a CPU that is missing counts as a core of its own.
Cpus ShareOf(const std::vector<Cpus>& masks, const std::map<int, int>& core_of, std::size_t rank);

// CPU numbers, sorted; neither is empty, and they have no physical core in common.
struct RankCpus {
  Cpus background;
  Cpus rest;
};

struct Partition {
  std::vector<RankCpus> ranks;  // one per local rank, empty if there is an error
  std::string error;            // for people: numbers and remedy; "" if there is none
};

// masks, core_of: as above. core_index: which core of its share the background thread gets, in the
// order of core numbers; negative counts from the end.
//
// Ranks with equal masks share them evenly by physical core, contiguously; leftover cores go to the
// lower local ranks. Masks that overlap without being equal are an error, as is a share of fewer
// than two cores. The answer depends on the arguments alone, so ranks that gathered the same masks
// agree.
Partition PartitionNode(const std::vector<Cpus>& masks, const std::map<int, int>& core_of,
                        int core_index);

}  // namespace horovod_opt
