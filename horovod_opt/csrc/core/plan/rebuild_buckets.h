// Rebuild of buckets, as in PyTorch's DistributedDataParallel, from the order in which tensors were
// seen to arrive. Depth in the graph is a guess of when a gradient is ready; after a few iterations
// the ranks know.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {

// When the tensors of a plan arrive, on average. Times count from the first arrival of an
// iteration.
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

// `times_us`: mean arrival of each slot after the start of its iteration. The slots are taken by
// time (a slot never before one that it depends on) and fused as long as they agree, do not depend
// on each other, stay below what `limits` allow, and none comes much later than the one before it.
// `left_out`: slots that are in none. The same on every rank for the same arguments.
Buckets RebuildBuckets(const Plan& plan, const BucketLimits& limits,
                       const std::vector<std::int64_t>& times_us,
                       const std::set<int>& left_out = {});

}  // namespace horovod_opt
