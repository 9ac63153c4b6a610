#include "horovod_opt/csrc/binding/modes/scp.h"

#include <exception>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "horovod/common/controller.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/core/cores/affinity.h"
#include "horovod_opt/csrc/core/cores/partition.h"

namespace horovod_opt {
namespace {

constexpr std::size_t kCoresToSpare = 4;  // of a rank, from which on one is for the thread

std::string ToText(const std::vector<int>& cpus) {
  std::ostringstream text;
  for (int cpu : cpus) text << cpu << ' ';
  return text.str();
}

std::vector<int> FromText(const std::string& text) {
  std::istringstream stream(text);
  std::vector<int> cpus;
  for (int cpu; stream >> cpu;) cpus.push_back(cpu);
  return cpus;
}

Partition PartitionOwnNode(State& state, horovod::common::Controller& controller,
                           const std::map<int, int>& core_of) {
  return PartitionNode(NodeMasks(state, controller), core_of,
                       static_cast<int>(state.settings.scp_core));
}

}  // namespace

std::vector<std::vector<int>> NodeMasks(const State& state,
                                        horovod::common::Controller& controller) {
  const auto rows = GatherRows(controller, ToText(state.launcher_cpus));
  std::vector<std::vector<int>> masks;
  for (int rank : controller.GetLocalCommRanks()) masks.push_back(FromText(rows[rank]));
  return masks;
}

bool HasCoresToSpare(State& state, horovod::common::Controller& controller) {
  const auto core_of = ReadCores();
  const auto partition = PartitionOwnNode(state, controller, core_of);
  std::set<int> cores;
  if (partition.error.empty()) {
    const RankCpus& own = partition.ranks[controller.GetLocalRank()];
    for (const auto& cpus : {own.background, own.rest}) {
      for (int cpu : cpus) cores.insert(core_of.count(cpu) ? core_of.at(cpu) : -1 - cpu);
    }
  }
  std::vector<long long> spare{cores.size() >= kCoresToSpare};
  controller.CrossRankBitwiseAnd(spare, 1);
  return spare[0] != 0;
}

std::string ApplyPartition(State& state, horovod::common::Controller& controller) {
  const auto partition = PartitionOwnNode(state, controller, ReadCores());
  if (!partition.error.empty()) return partition.error;
  try {
    PinProcess(state.tid, partition.ranks[controller.GetLocalRank()]);
  } catch (const std::exception& error) {
    return std::string("cannot pin the threads for HOROVOD_OPT_MODE=scp: ") + error.what();
  }
  return "";
}

void UndoPartition(State& state) {
  try {
    PinProcess(state.tid, {state.launcher_cpus, state.launcher_cpus});
  } catch (const std::exception&) {
    // The process is on its way out, or its CPUs were taken away: then the kernel has the last
    // word.
  }
}

}  // namespace horovod_opt
