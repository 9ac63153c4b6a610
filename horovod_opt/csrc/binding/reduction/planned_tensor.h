// A tensor on its way through the planned path.
#pragma once

#include <optional>
#include <string>

#include "horovod/common/common.h"
#include "horovod/common/message.h"
#include "horovod_opt/csrc/core/plan/arrival.h"

namespace horovod_opt {

struct PlannedTensor : Arrival {
  std::string Name() const override { return entry.tensor_name; }
  bool DataReady() override { return entry.ready_event_list.opt_ready_now(); }

  horovod::common::TensorTableEntry entry;
  Reduction reduction;
  horovod::common::Status problem;  // why it has no output
  // Of a call (recurring_calls.h): what upstream's queue gets if it is negotiated after all.
  std::optional<horovod::common::Request> request;
};

inline PlannedTensor& TensorOf(const ArrivalPtr& arrival) {
  return static_cast<PlannedTensor&>(*arrival);
}

// It begins with Horovod, by which hvd.elastic.run of TensorFlow tells its failures from others.
inline horovod::common::Status ReductionFailed(const std::string& why) {
  return horovod::common::Status::UnknownError("Horovod: a planned reduction failed: " + why);
}

}  // namespace horovod_opt
