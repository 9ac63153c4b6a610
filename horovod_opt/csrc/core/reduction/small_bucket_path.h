// Interface of small buckets: how PlanTable announces buckets that have a place of their own in the
// memory of the group (shared_memory/bucket_places.h). The framework's thread that completes such a
// bucket contributes it, and on the last rank adds it up, too: the thread of the planned path is
// not needed there. Nor is it on a rank whose thread finds that the others come within
// microseconds.
#pragma once

#include <cstdint>

#include "horovod_opt/csrc/core/plan/planned_bucket.h"

namespace horovod_opt {

// Any threads, under locks of PlanTable, except for Perform().
class SmallBucketPath {
 public:
  virtual ~SmallBucketPath() = default;

  // Memory for a place of a bucket of so many bytes; 0: it has none.
  virtual std::int64_t PlaceBytes(std::int64_t bytes) const = 0;
  enum class Readiness {
    kLast,    // this rank is the last one, and calls Append() next
    kOthers,  // others are to come, and the thread of the planned path will hear of it
    kSoon,    // others come soon, by experience: Spin() follows, without locks, and then Perform(),
              // if the caller has taken the bucket, or EndSpin()
  };
  // Contributes the bucket if that can be done at once, and counts it as complete. Never kSoon if
  // the caller cannot spin.
  virtual Readiness Announce(const Work& work, bool can_spin) = 0;
  // The bucket can be performed without waiting for anybody. Then Perform() follows.
  virtual bool MayPerform(const Work& work) = 0;
  // The other ranks find it in the ready queue now. `here`: this rank performs it.
  virtual void Append(int bucket_id, bool here) = 0;
  // Adds up the bucket and calls back. `spun`: after Spin(). Whatever else there is to do in the
  // memory of the group is done before it calls back.
  virtual void Perform(Work work, bool spun) = 0;
  // True: all have contributed, so the bucket can be performed, if nobody has taken it meanwhile;
  // false: it has taken too long.
  virtual bool Spin(const Turn& turn) = 0;
  // Another thread performs the bucket, or nobody. `in_vain`: Spin() has taken too long.
  virtual void EndSpin(const Turn& turn, bool in_vain) = 0;
};

}  // namespace horovod_opt
