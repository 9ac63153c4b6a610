#include "scp.h"

#include <exception>
#include <sstream>
#include <vector>

#include "horovod/common/controller.h"
#include "horovod_opt/csrc/core/affinity.h"
#include "horovod_opt/csrc/core/partition.h"
#include "rank_rows.h"

namespace horovod_opt {
namespace {

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

}  // namespace

std::string ApplyPartition(State& state, horovod::common::Controller& controller) {
  const auto rows = GatherRows(controller, ToText(state.launcher_cpus));
  std::vector<std::vector<int>> masks;  // by local rank
  for (int rank : controller.GetLocalCommRanks()) masks.push_back(FromText(rows[rank]));
  const auto partition =
      PartitionNode(masks, ReadCores(), static_cast<int>(state.settings.scp_core));
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
    // The process is on its way out, or its CPUs were taken away: then the kernel has the last word.
  }
}

}  // namespace horovod_opt
