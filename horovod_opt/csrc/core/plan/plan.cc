#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {

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
