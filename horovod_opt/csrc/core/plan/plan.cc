#include "horovod_opt/csrc/core/plan/plan.h"

#include <algorithm>
#include <iterator>

namespace horovod_opt {

Buckets Without(const Buckets& buckets, const std::set<int>& slots) {
  Buckets others;
  for (const std::vector<int>& bucket : buckets) {
    std::vector<int> left;
    std::copy_if(bucket.begin(), bucket.end(), std::back_inserter(left),
                 [&](int slot) { return slots.count(slot) == 0; });
    if (!left.empty()) others.push_back(std::move(left));
  }
  return others;
}

std::string Difference(const Slot& slot, std::int64_t bytes, const Reduction& reduction) {
  if (bytes != slot.bytes) {
    return "it has " + std::to_string(bytes) + " bytes, not the planned " +
           std::to_string(slot.bytes);
  }
  if (reduction.device != slot.reduction.device) {
    return "it is " + reduction.Where() + ", and was " + slot.reduction.Where() +
           " in its first iteration";
  }
  if (!reduction.IsLike(slot.reduction)) {
    return "its dtype, reduce operation or scaling is not the planned one";
  }
  return "";
}

}  // namespace horovod_opt
