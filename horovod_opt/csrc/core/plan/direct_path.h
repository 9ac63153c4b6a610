// How PlanTable announces buckets that have a place of their own in the memory of the group
// (shm/bucket_places.h). The framework's thread that completes such a bucket contributes it, and on
// the last rank adds it up, too: the thread of the planned path is not needed there.
#pragma once

#include <cstdint>
#include <vector>

#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod_opt {

// A complete bucket, which nobody has taken.
struct CompleteBucket {
  const Plan& plan;
  Turn turn;
  std::uint64_t iteration;
  const std::vector<int>& slots;
  const std::vector<ArrivalPtr>& arrivals;  // none: they were taken back, on every rank
};

// Any threads, under locks of PlanTable, except for Perform().
class DirectPath {
 public:
  virtual ~DirectPath() = default;

  // Memory for a place of a bucket of so many bytes; 0: it has none.
  virtual std::int64_t PlaceBytes(std::int64_t bytes) const = 0;
  // Contributes the bucket if that can be done at once, and counts it as complete. True: this rank
  // is the last one, and calls Append() next.
  virtual bool Announce(const CompleteBucket& bucket) = 0;
  // The bucket can be performed without waiting for anybody. Then Perform() follows.
  virtual bool MayPerform(const CompleteBucket& bucket) = 0;
  // The other ranks find it in the ready queue now. `here`: this rank performs it.
  virtual void Append(int bucket_id, bool here) = 0;
  virtual void Perform(Work work) = 0;
};

}  // namespace horovod_opt
