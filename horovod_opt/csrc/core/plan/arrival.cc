#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod_opt {

std::string Describe(const Work& work) {
  std::string text = "plan " + work.plan->hash + " (" + work.plan->name + "), iteration " +
                     std::to_string(work.iteration) + ", bucket " + std::to_string(work.bucket_id) +
                     ": ";
  const char* separator = "";
  for (int slot : work.slots) {
    text += separator + work.plan->slots[slot].name;
    separator = ", ";
  }
  return text;
}

}  // namespace horovod_opt
