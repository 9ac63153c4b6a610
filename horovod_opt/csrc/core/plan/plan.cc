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

Buckets SplitByDevices(const Buckets& buckets, const SharedDevices& devices) {
  if (devices.empty()) return buckets;
  Buckets apart;
  for (const std::vector<int>& bucket : buckets) {
    const std::size_t first = apart.size();
    for (int slot : bucket) {
      const auto has_its_devices = [&](const std::vector<int>& other) {
        return devices[other[0]] == devices[slot];
      };
      const auto place = std::find_if(apart.begin() + first, apart.end(), has_its_devices);
      if (place == apart.end()) {
        apart.push_back({slot});
      } else {
        place->push_back(slot);
      }
    }
  }
  return apart;
}

}  // namespace horovod_opt
