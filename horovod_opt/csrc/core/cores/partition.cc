#include "horovod_opt/csrc/core/cores/partition.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

constexpr std::size_t kCoresPerRank = 2;  // the background thread's and at least one other

const char kUnbound[] =
    "unbound, as horovodrun does by default (Open MPI: --bind-to none, MPICH: -bind-to none)";
const char kWithoutScp[] = "leave scp out of HOROVOD_OPT_MODE";

using Cores = std::vector<Cpus>;  // the CPUs of each physical core

// Without repetitions.
Cpus Sorted(Cpus cpus) {
  std::sort(cpus.begin(), cpus.end());
  cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
  return cpus;
}

// In the order of core numbers.
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

// All CPUs of the cores, sorted.
Cpus Join(const Cores& cores) {
  Cpus cpus;
  for (const Cpus& core : cores) cpus.insert(cpus.end(), core.begin(), core.end());
  return Sorted(std::move(cpus));
}

// Part `index` of `parts`: as many cores for each, contiguously; leftover ones go to the first
// parts. Empty for some parts if there are fewer cores than parts.
Cores PartOf(const Cores& cores, std::size_t index, std::size_t parts) {
  const std::size_t even = cores.size() / parts, leftover = cores.size() % parts;
  const auto begin = cores.begin() + even * index + std::min(index, leftover);
  return Cores(begin, begin + even + (index < leftover));
}

// Local ranks that may run on the same CPUs.
struct Group {
  std::vector<int> ranks;
  Cpus cpus;
  Cores cores;
};

std::string Count(std::size_t number, const std::string& noun) {
  return std::to_string(number) + " " + noun + (number == 1 ? "" : "s");
}

std::vector<Group> GroupByMask(const std::vector<Cpus>& masks, const std::map<int, int>& core_of) {
  std::vector<Group> groups;
  std::map<Cpus, std::size_t> index;
  for (std::size_t rank = 0; rank < masks.size(); ++rank) {
    Cpus cpus = Sorted(masks[rank]);
    const auto [group, is_new] = index.emplace(cpus, groups.size());
    if (is_new) {
      Cores cores = SplitByCore(cpus, core_of);
      groups.push_back({{}, std::move(cpus), std::move(cores)});
    }
    groups[group->second].ranks.push_back(static_cast<int>(rank));
  }
  return groups;
}

std::string RanksOf(const Group& group) { return Ranges("local rank", group.ranks); }

std::string OverlapError(const std::vector<Group>& groups) {
  std::map<int, const Group*> owner;
  for (const Group& group : groups) {
    for (int cpu : group.cpus) {
      const auto [first, is_free] = owner.emplace(cpu, &group);
      if (is_free) continue;
      return "Mode scp needs CPU masks that are equal or disjoint: " + RanksOf(*first->second) +
             " may use " + Ranges("CPU", first->second->cpus) + ", " + RanksOf(group) + " " +
             Ranges("CPU", group.cpus) + ", both CPU " + std::to_string(cpu) +
             ". Bind every rank to CPUs of its own, or start them " + kUnbound + ", or " +
             kWithoutScp + ".";
    }
  }
  return "";
}

std::size_t CoresOfNode(const std::vector<Group>& groups, const std::map<int, int>& core_of) {
  std::set<int> known;
  for (const auto& cpu_and_core : core_of) known.insert(cpu_and_core.second);
  std::size_t unknown = 0;
  for (const Group& group : groups) {
    for (int cpu : group.cpus) unknown += core_of.count(cpu) == 0;
  }
  return known.size() + unknown;
}

std::string TooFewCoresError(const std::vector<Group>& groups, std::size_t ranks,
                             const std::map<int, int>& core_of) {
  std::string what;
  std::size_t more_ranks = 0;
  for (const Group& group : groups) {
    const std::size_t needed = kCoresPerRank * group.ranks.size();
    if (group.cores.size() >= needed) continue;
    if (what.empty()) {
      what = RanksOf(group) + (group.ranks.size() == 1 ? " has " : " share ") +
             Ranges("CPU", group.cpus) + ", " + Count(group.cores.size(), "core") + " where " +
             std::to_string(needed) + " are needed";
    } else {
      more_ranks += group.ranks.size();
    }
  }
  if (what.empty()) return "";
  if (more_ranks > 0) what += " (and " + Count(more_ranks, "more local rank") + " with too few)";

  const std::size_t node = CoresOfNode(groups, core_of);
  std::string remedy = "This node has " + Count(node, "core");
  if (node >= kCoresPerRank * ranks) {
    remedy += ", enough for its " + Count(ranks, "rank") + ": start them " + kUnbound;
  } else if (node >= kCoresPerRank) {
    remedy += ": start at most " + Count(node / kCoresPerRank, "rank") + " on it";
  } else {
    remedy += ", too few for scp: use a larger one";
  }
  return "Mode scp needs 2 cores per rank, one of them for the background thread: " + what + ". " +
         remedy + ", or " + kWithoutScp + ".";
}

}  // namespace

Partition PartitionNode(const std::vector<Cpus>& masks, const std::map<int, int>& core_of,
                        int core_index) {
  const std::vector<Group> groups = GroupByMask(masks, core_of);
  std::string error = OverlapError(groups);
  if (error.empty()) error = TooFewCoresError(groups, masks.size(), core_of);
  if (!error.empty()) return {{}, std::move(error)};

  Partition partition;
  partition.ranks.resize(masks.size());
  for (const Group& group : groups) {
    for (std::size_t i = 0; i < group.ranks.size(); ++i) {
      Cores share = PartOf(group.cores, i, group.ranks.size());
      const int size = static_cast<int>(share.size());
      if (core_index < -size || core_index >= size) {
        return {{},
                "HOROVOD_OPT_SCP_CORE=" + std::to_string(core_index) + ": local rank " +
                    std::to_string(group.ranks[i]) + " has " + Count(size, "core") + ", so use " +
                    std::to_string(-size) + " to " + std::to_string(size - 1) + "."};
      }
      const auto chosen = share.begin() + (core_index < 0 ? core_index + size : core_index);
      RankCpus& cpus = partition.ranks[group.ranks[i]];
      cpus.background = *chosen;
      share.erase(chosen);
      cpus.rest = Join(share);
    }
  }
  return partition;
}

Cpus ShareOf(const std::vector<Cpus>& masks, const std::map<int, int>& core_of, std::size_t rank) {
  const Cpus own = Sorted(masks[rank]);
  std::size_t index = 0, ranks = 0;  // of those with the same mask
  for (std::size_t peer = 0; peer < masks.size(); ++peer) {
    if (Sorted(masks[peer]) != own) continue;
    if (peer < rank) ++index;
    ++ranks;
  }
  const Cores cores = SplitByCore(own, core_of);
  if (cores.size() < ranks) return Sorted(cores[index % cores.size()]);
  return Join(PartOf(cores, index, ranks));
}

}  // namespace horovod_opt
