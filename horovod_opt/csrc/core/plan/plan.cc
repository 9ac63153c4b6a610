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

std::string LearnedTensors::See(int slot, const std::vector<std::int64_t>& shape) {
  First& first = first_[slot];
  if (!first.seen) first = {true, shape};
  if (shape == first.shape) return "";
  return "it has the shape " + Text(shape) + ", and had " + Text(first.shape) +
         " in its first iteration";
}

Devices LearnedDevices(const Plan& plan) {
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
      const Slot& other = plan.slots[slot];
      if (other.reduction.device == first.reduction.device) continue;
      return "'" + first.name + "' is " + first.reduction.Where() + ", and '" + other.name +
             "' in its bucket " + other.reduction.Where();
    }
  }
  return "";
}

}  // namespace horovod_opt
