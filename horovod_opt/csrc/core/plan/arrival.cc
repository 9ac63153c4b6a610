#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod_opt {

std::string Describe(const Plan& plan, int bucket_id, std::uint64_t iteration,
                     const std::vector<int>& slots) {
  std::string text = "plan " + plan.hash + " (" + plan.name + "), iteration " +
                     std::to_string(iteration) + ", bucket " + std::to_string(bucket_id) + ": ";
  const char* separator = "";
  for (int slot : slots) {
    text += separator + plan.slots[slot].name;
    separator = ", ";
  }
  return text;
}

}  // namespace horovod_opt
