#include "horovod_opt/csrc/binding/modes/topo/stall_watch.h"

#include "horovod/common/stall_inspector.h"
#include "horovod/common/utils/env_parser.h"

namespace horovod_opt {
namespace {

using Clock = PlanTable::Clock;
using Age = std::chrono::duration<double>;

// Upstream reads its settings into protected members only.
struct Limits : horovod::common::StallInspector {
  explicit Limits(horovod::common::ResponseCache& cache) : StallInspector(cache) {
    horovod::common::ParseStallInspectorFromEnv(*this);
  }
  double Warning() const { return perform_stall_check ? stall_warning_time_seconds : 0; }
  double Shutdown() const { return perform_stall_check ? stall_shutdown_time_seconds : 0; }
};

Clock::time_point Before(Age age) {
  return Clock::now() - std::chrono::duration_cast<Clock::duration>(age);
}

}  // namespace

StallWatch::StallWatch() : last_(Clock::now()) {
  horovod::common::ResponseCache cache;
  const Limits limits(cache);
  warning_ = Age(limits.Warning());
  shutdown_ = Age(limits.Shutdown());
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

}  // namespace horovod_opt
