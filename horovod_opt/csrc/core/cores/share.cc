#include "horovod_opt/csrc/core/cores/share.h"

#include <algorithm>
#include <utility>

namespace horovod_opt {

Cpus Sorted(Cpus cpus) {
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

Cores SplitByCore(const Cpus& cpus, const std::map<int, int>& core_of) {
  std::map<std::pair<bool, int>, Cpus> cores;  // (unknown, number): the two never mix
  for (int cpu : cpus) {
    const auto core = core_of.find(cpu);
    const bool unknown = core == core_of.end();
    cores[{unknown, unknown ? cpu : core->second}].push_back(cpu);
  }
  Cores split;
  for (auto& core : cores) split.push_back(std::move(core.second));
  return split;
}

Cpus Join(const Cores& cores) {
  Cpus cpus;
  for (const Cpus& core : cores) cpus.insert(cpus.end(), core.begin(), core.end());
  return Sorted(std::move(cpus));
}

Cores PartOf(const Cores& cores, std::size_t index, std::size_t parts) {
  const std::size_t even = cores.size() / parts, leftover = cores.size() % parts;
  const auto begin = cores.begin() + even * index + std::min(index, leftover);
  return Cores(begin, begin + even + (index < leftover));
}

Cpus ShareOf(const std::vector<Cpus>& masks, const std::map<int, int>& core_of, std::size_t rank) {
  const Cpus own = Sorted(masks[rank]);
  std::size_t index = 0, ranks = 0;  // of those with the same mask
  for (std::size_t other = 0; other < masks.size(); ++other) {
    if (Sorted(masks[other]) != own) continue;
    if (other < rank) ++index;
    ++ranks;
  }
  const Cores cores = SplitByCore(own, core_of);
  if (cores.size() < ranks) return Sorted(cores[index % cores.size()]);
  return Join(PartOf(cores, index, ranks));
}

}  // namespace horovod_opt
