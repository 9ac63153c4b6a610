#include "horovod_opt/csrc/core/plan/arrival_times.h"

#include <algorithm>

namespace horovod_opt {

void ArrivalTimes::Add(int slot, std::uint64_t iteration, Clock::time_point now) {
  if (iteration < iteration_) return;
  if (iteration > iteration_) {
    iteration_ = iteration;
    start_ = now;
  }
  sums_us_[slot] += std::chrono::duration_cast<std::chrono::microseconds>(now - start_).count();
  ++counts_[slot];
}

std::vector<std::int64_t> ArrivalTimes::Means() const {
  std::vector<std::int64_t> means;
  for (std::size_t slot = 0; slot < counts_.size(); ++slot) {
    means.push_back(sums_us_[slot] / std::max<std::int64_t>(counts_[slot], 1));
  }
  return means;
}

}  // namespace horovod_opt
