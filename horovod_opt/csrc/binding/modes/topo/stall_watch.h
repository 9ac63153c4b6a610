// Stall inspector of planned tensors: when the ranks are to find out which wait and what for
// (core/agreement/stall_report.h), as upstream's does for negotiated ones and with its settings.
#pragma once

#include <chrono>
#include <string>

#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod_opt {

// For the background thread.
class StallWatch {
 public:
  // With the limits that upstream reads from the environment.
  StallWatch();

  // A tensor waits longer than allowed since the last time that this was asked and true.
  bool Due(const PlanTable& plans);
  // A tensor waits so long that the job is to end.
  bool ShouldEnd(const PlanTable& plans) const;

  // How long a tensor may wait until anybody is warned; zero: forever.
  PlanTable::Clock::duration Warning() const {
    return std::chrono::duration_cast<PlanTable::Clock::duration>(warning_);
  }
  // The same in whole seconds, for users.
  std::string Limit() const { return std::to_string(static_cast<int>(warning_.count())); }

 private:
  std::chrono::duration<double> warning_{0}, shutdown_{0};  // 0: never
  PlanTable::Clock::time_point last_;
};

}  // namespace horovod_opt
