#include "horovod_opt/csrc/binding/base/node_masks.h"

#include <sstream>
#include <string>

#include "horovod/common/controller.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/base/state.h"

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

std::vector<std::vector<int>> NodeMasks(const State& state,
                                        horovod::common::Controller& controller) {
  const auto rows = GatherRows(controller, ToText(state.launcher_cpus));
  std::vector<std::vector<int>> masks;
  for (int rank : controller.GetLocalCommRanks()) masks.push_back(FromText(rows[rank]));
  return masks;
}

}  // namespace horovod_opt
