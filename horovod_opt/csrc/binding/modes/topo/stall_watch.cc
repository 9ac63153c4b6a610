#include "horovod_opt/csrc/binding/modes/topo/stall_watch.h"

#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "horovod/common/stall_inspector.h"
#include "horovod/common/utils/env_parser.h"
#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

using Clock = PlanTable::Clock;
using Seconds = std::chrono::duration<double>;

// Upstream reads its settings into protected members only.
struct Limits : horovod::common::StallInspector {
  explicit Limits(horovod::common::ResponseCache& cache) : StallInspector(cache) {
    horovod::common::ParseStallInspectorFromEnv(*this);
  }
  double Warning() const { return perform_stall_check ? stall_warning_time_seconds : 0; }
  double Shutdown() const { return perform_stall_check ? stall_shutdown_time_seconds : 0; }
};

Clock::time_point Before(Seconds age) {
  return Clock::now() - std::chrono::duration_cast<Clock::duration>(age);
}

}  // namespace

StallWatch::StallWatch() : last_(Clock::now()) {
  horovod::common::ResponseCache cache;
  const Limits limits(cache);
  warning_ = Seconds(limits.Warning());
  shutdown_ = Seconds(limits.Shutdown());
}

bool StallWatch::Due(const PlanTable& plans) {
  if (warning_.count() <= 0 || Clock::now() - last_ < warning_) return false;
  if (plans.LateBuckets(Before(warning_)).empty()) return false;
  last_ = Clock::now();
  return true;
}

bool StallWatch::ShouldEnd(const PlanTable& plans) const {
  return shutdown_.count() > 0 && !plans.LateBuckets(Before(shutdown_)).empty();
}

std::string StallWatch::Row(const PlanTable& plans) {
  std::ostringstream row;
  for (const auto& late : plans.LateBuckets(Clock::now())) {
    for (const auto* names : {&late.here, &late.missing}) {
      for (const auto& name : *names) {
        row << (names == &late.here) << '\t' << late.iteration << '\t' << late.plan << '\t' << name
            << '\n';
      }
    }
  }
  return row.str();
}

std::string StallWatch::Describe(const TextByRank& rows) {
  std::map<std::string, std::set<int>> present;  // iteration, plan and name -> ranks that have it
  for (const auto& [row, have] : Distinct(rows)) {
    std::istringstream lines(row.str());
    for (std::string line; std::getline(lines, line);) {
      auto& ranks = present[line.substr(2)];
      if (line[0] == '1') ranks.insert(have.begin(), have.end());
    }
  }
  std::ostringstream text;
  for (const auto& [tensor, ranks] : present) {
    std::vector<int> missing;
    for (const auto& [rank, row] : rows) {
      if (ranks.count(rank) == 0) missing.push_back(rank);
    }
    if (missing.empty()) continue;
    const std::size_t plan = tensor.find('\t') + 1, name = tensor.rfind('\t') + 1;
    text << "\n"
         << tensor.substr(name) << " (plan " << tensor.substr(plan, name - plan - 1)
         << ", iteration " << tensor.substr(0, plan - 1) << "): missing on "
         << Ranges("rank", missing);
  }
  return text.str();
}

}  // namespace horovod_opt
