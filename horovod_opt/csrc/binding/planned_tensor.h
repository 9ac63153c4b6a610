// A tensor on its way through the planned lane.
#pragma once

#include <string>

#include "horovod/common/common.h"
#include "horovod_opt/csrc/core/plan_run.h"

namespace horovod_opt {

struct PlannedTensor : Arrival {
  std::string Name() const override { return entry.tensor_name; }
  bool DataReady() override { return entry.ready_event_list.Ready(); }

  horovod::common::TensorTableEntry entry;
  Reduction reduction;
};

inline PlannedTensor& TensorOf(const ArrivalPtr& arrival) {
  return static_cast<PlannedTensor&>(*arrival);
}

}  // namespace horovod_opt
