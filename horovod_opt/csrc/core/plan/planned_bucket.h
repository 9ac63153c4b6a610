// A fused bucket of an active plan, which is the same in every iteration, and one that is complete,
// with all that is needed to reduce it.
//
// Ranks mean the same bucket if their fingerprints are equal: of all that each of its tensors has to
// have in common, of the iteration, and of the number of a call without a name. It goes as a tag with everything that ranks do
// together about the bucket, and is compared before a result is written. So ranks that disagree,
// for whatever reason, get an error and not the sum of different tensors.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/plan/arrival.h"
#include "horovod_opt/csrc/core/plan/plan.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_places.h"

namespace horovod_opt {

constexpr int kNoBucket = -1;

struct PlannedBucket {
  // Of `plan`, which outlives it, for `ranks` ranks.
  PlannedBucket(const Plan& plan, int id, std::vector<int> slots, int ranks);

  const Slot& first() const { return plan->slots[slots[0]]; }  // all slots are alike
  bool IsCall() const { return first().collective != Collective::kAllreduce; }
  std::uint64_t Tag(std::uint64_t iteration) const;
  // Of an allreduce in main memory that has arithmetic; else nullptr.
  std::shared_ptr<const BucketReduction> ReductionOf(const std::vector<ArrivalPtr>& arrivals) const;
  // For messages: which bucket of which iteration it is, and its tensors.
  std::string Describe(std::uint64_t iteration) const;

  const Plan* const plan;
  const int id;
  const std::vector<int> slots;
  std::int64_t bytes = 0;
  std::uint64_t fingerprint;
  std::optional<Arithmetic> arithmetic;
  double postscale = 1;  // with the division of an average
};

// A complete bucket.
struct Work {
  // Nothing is left to do: its arrivals were taken back, on every rank, or another thread has it.
  bool IsEmpty() const { return arrivals.empty(); }
  std::uint64_t Tag() const;
  std::int64_t Bytes() const;  // of this rank's tensors, or in their place
  std::string Describe() const { return bucket->Describe(iteration); }

  std::shared_ptr<const PlannedBucket> bucket;
  std::uint64_t iteration = 0;
  std::vector<ArrivalPtr> arrivals;                  // by position in the bucket's slots
  std::shared_ptr<const BucketReduction> reduction;  // as ReductionOf() of them
  std::chrono::steady_clock::time_point last_arrival;
  Turn turn;  // where it has a place of its own
};

}  // namespace horovod_opt
