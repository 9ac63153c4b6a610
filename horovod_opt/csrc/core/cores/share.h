// How the cores of a node are divided among its ranks.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace horovod_opt {

// CPU numbers.
using Cpus = std::vector<int>;
// The CPUs of each physical core.
using Cores = std::vector<Cpus>;

// Without repetitions.
Cpus Sorted(Cpus cpus);

// In the order of core numbers. core_of: CPU -> physical core, equal for SMT siblings; a CPU that is
// missing counts as a core of its own.
Cores SplitByCore(const Cpus& cpus, const std::map<int, int>& core_of);

// All CPUs of the cores, sorted.
Cpus Join(const Cores& cores);

// Part `index` of `parts`: as many cores for each, contiguously; leftover ones go to the first
// parts. Empty for some parts if there are fewer cores than parts.
Cores PartOf(const Cores& cores, std::size_t index, std::size_t parts);

// Where a thread of local rank `rank` stays that runs often, but for moments, so that those of
// different ranks are apart, as far as there are cores: its part of the cores that the launcher gave
// it and others with the same mask; where these are fewer than the ranks, one that it shares with as
// few as possible. masks[r]: the CPUs that the launcher gave local rank r.
Cpus ShareOf(const std::vector<Cpus>& masks, const std::map<int, int>& core_of, std::size_t rank);

}  // namespace horovod_opt
