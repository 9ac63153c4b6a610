// When the tensors of a plan arrive, on average: rebuild_buckets.h orders buckets by it.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace horovod_opt {

// Times count from the first arrival of an iteration.
class ArrivalTimes {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ArrivalTimes(std::size_t slots) : sums_us_(slots, 0), counts_(slots, 0) {}

  // A tensor of an iteration that is over does not count.
  void Add(int slot, std::uint64_t iteration, Clock::time_point now);
  // In us, by slot; 0 for one that has not arrived.
  std::vector<std::int64_t> Means() const;
  // Iterations are counted anew.
  void Restart() { iteration_ = 0; }

 private:
  std::uint64_t iteration_ = 0;
  Clock::time_point start_;
  std::vector<std::int64_t> sums_us_, counts_;
};

}  // namespace horovod_opt
