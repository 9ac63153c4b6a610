#include "horovod_opt/csrc/core/plan/planned_bucket.h"

#include <sstream>
#include <utility>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {
namespace {

// Not where the tensors are on this rank, nor what their plan is called: it may differ.
std::uint64_t FingerprintOf(const Plan& plan, int id, const std::vector<int>& slots) {
  std::ostringstream text;
  text << std::hexfloat << plan.hash << '\t' << id;
  for (int number : slots) {
    const Slot& slot = plan.slots[number];
    const Reduction& reduction = slot.reduction;
    text << '\n'
         << number << ' ' << static_cast<int>(slot.collective) << ' ' << slot.bytes << ' '
         << slot.root << ' ' << slot.rows << ' ' << reduction.dtype << ' ' << reduction.reduce_op
         << ' ' << reduction.prescale << ' ' << reduction.postscale << ' ' << slot.name;
  }
  return Hash(text.str());
}

}  // namespace

PlannedBucket::PlannedBucket(const Plan& of_plan, int bucket_id, std::vector<int> members,
                             int ranks)
    : plan(&of_plan),
      id(bucket_id),
      slots(std::move(members)),
      fingerprint(FingerprintOf(of_plan, bucket_id, slots)) {
  const Reduction& reduction = first().reduction;
  postscale = reduction.postscale;
  if (reduction.reduce_op == reduce_op::kAverage) postscale /= ranks;
  if (!reduction.OnGpu()) arithmetic = ArithmeticOf(reduction.dtype, reduction.reduce_op);
  for (int slot : slots) {
    const std::int64_t slot_bytes = plan->slots[slot].bytes;
    bytes += slot_bytes;
    if (arithmetic && slot_bytes % static_cast<std::int64_t>(arithmetic->element) != 0)
      arithmetic.reset();
  }
}

// A bijection of the iteration for each fingerprint, so that no two iterations have one tag; its
// bits are spread so that two buckets hardly do.
std::uint64_t PlannedBucket::Tag(std::uint64_t iteration) const {
  return fingerprint ^ (iteration * 0x9e3779b97f4a7c15u);
}

std::shared_ptr<const BucketReduction> PlannedBucket::ReductionOf(
    const std::vector<ArrivalPtr>& arrivals) const {
  if (IsCall() || !arithmetic) return nullptr;
  std::vector<Segment> segments;
  segments.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t slot_bytes = plan->slots[slots[i]].bytes;
    segments.push_back(arrivals[i] == nullptr ? Segment{nullptr, nullptr, slot_bytes}
                                              : arrivals[i]->segment);
  }
  return std::make_shared<const BucketReduction>(std::move(segments), *arithmetic,
                                                 first().reduction.prescale, postscale);
}

// A rank that has joined has no arrival to tell a number: plans of such calls end when one joins.
std::uint64_t Work::Tag() const {
  const bool has_number = !arrivals.empty() && arrivals[0] != nullptr;
  const auto number = has_number ? static_cast<std::uint64_t>(arrivals[0]->number) : 0;
  return bucket->Tag(iteration) + number * 0xc2b2ae3d27d4eb4fu;
}

std::int64_t Work::Bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    bytes += arrivals[i] != nullptr ? arrivals[i]->segment.bytes
                                    : bucket->plan->slots[bucket->slots[i]].bytes;
  }
  return bytes;
}

std::string PlannedBucket::Describe(std::uint64_t iteration) const {
  std::string text = "plan " + plan->hash + " (" + plan->name + "), iteration " +
                     std::to_string(iteration) + ", bucket " + std::to_string(id) + ": ";
  const char* separator = "";
  for (int slot : slots) {
    text += separator + plan->slots[slot].name;
    separator = ", ";
  }
  return text;
}

}  // namespace horovod_opt
