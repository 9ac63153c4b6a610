#include "horovod_opt/csrc/core/plan/plan.h"

#include <algorithm>
#include <iterator>

namespace horovod_opt {
namespace {

std::string Text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (std::int64_t dimension : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(dimension);
  }
  return "[" + text + "]";
}

}  // namespace

Buckets Without(const Buckets& buckets, const std::set<int>& slots) {
  Buckets smaller;
  for (const std::vector<int>& bucket : buckets) {
    std::vector<int> rest;
    std::copy_if(bucket.begin(), bucket.end(), std::back_inserter(rest),
                 [&](int slot) { return slots.count(slot) == 0; });
    if (!rest.empty()) smaller.push_back(std::move(rest));
  }
  return smaller;
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

std::string FirstShapes::Compare(int slot, const std::vector<std::int64_t>& shape) {
  First& first = first_[slot];
  if (!first.is_known) first = {true, shape};
  if (shape == first.shape) return "";
  return "it has the shape " + Text(shape) + ", and had " + Text(first.shape) +
         " in its first iteration";
}

Devices DevicesOf(const Plan& plan) {
  const auto on_gpu = [](const Slot& slot) { return slot.reduction.OnGpu(); };
  Devices devices;
  if (std::none_of(plan.slots.begin(), plan.slots.end(), on_gpu)) return devices;
  for (const Slot& slot : plan.slots) devices.push_back(slot.reduction.device);
  return devices;
}

std::string MixedDevices(const Plan& plan, const Buckets& buckets) {
  for (const auto& bucket : buckets) {
    const Slot& first = plan.slots[bucket[0]];
    for (int slot : bucket) {
      const Slot& member = plan.slots[slot];
      if (member.reduction.device == first.reduction.device) continue;
      return "'" + first.name + "' is " + first.reduction.Where() + ", and '" + member.name +
             "' in its bucket " + member.reduction.Where();
    }
  }
  return "";
}

}  // namespace horovod_opt
