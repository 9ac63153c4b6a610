#include "horovod_opt/csrc/core/plan/learned_tensors.h"

#include <algorithm>

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
