#include "horovod_opt/csrc/core/counters/step_count.h"

#include <algorithm>

namespace horovod_opt {

std::int64_t StepCount::Add(const std::string& name) {
  auto found = counts_.find(name);
  if (found == counts_.end()) {
    if (counts_.size() == kNames) return largest_;
    found = counts_.emplace(name, 0).first;
  }
  largest_ = std::max(largest_, ++found->second);
  return largest_;
}

void StepCount::Reset() {
  counts_.clear();
  largest_ = 0;
}

}  // namespace horovod_opt
