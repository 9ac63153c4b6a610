// The tensors of a planned bucket in upstream's timeline and, where every rank has one, the bucket:
// from this rank's last tensor to the result, which no rank has before every rank has begun. So they
// also tell which rank was waited for, and how the clocks of two hosts differ.
#pragma once

#include <string>
#include <vector>

#include "horovod/common/common.h"
#include "horovod/common/message.h"
#include "horovod/common/timeline.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"
#include "horovod_opt/csrc/binding/report/rank_timeline.h"
#include "horovod_opt/csrc/core/plan/planned_bucket.h"

namespace horovod_opt {

inline horovod::common::Response::ResponseType ResponseTypeOf(Collective collective) {
  using horovod::common::Response;
  switch (collective) {
    case Collective::kAllgather:
      return Response::ALLGATHER;
    case Collective::kBroadcast:
      return Response::BROADCAST;
    case Collective::kReducescatter:
      return Response::REDUCESCATTER;
    case Collective::kAllreduce:
      break;
  }
  return Response::ALLREDUCE;
}

inline void StartInTimeline(horovod::common::Timeline& timeline, const Work& work) {
  if (!timeline.Initialized()) return;
  const auto type = ResponseTypeOf(work.bucket->first().collective);
  using horovod::common::Response;
  const std::string activity = "PLANNED_" + Response::ResponseType_Name(type) + ", iteration " +
                               std::to_string(work.iteration) + ", bucket " +
                               std::to_string(work.bucket->id);
  for (const ArrivalPtr& arrival : work.arrivals) {
    if (arrival == nullptr) continue;
    const auto& entry = TensorOf(arrival).entry;
    timeline.Start(entry.tensor_name, type, entry.tensor->size());
    timeline.ActivityStart(entry.tensor_name, activity);
  }
}

inline void EndInTimeline(horovod::common::Timeline& timeline,
                          const std::vector<ArrivalPtr>& arrivals) {
  if (!timeline.Initialized()) return;
  for (const ArrivalPtr& arrival : arrivals) {
    if (arrival == nullptr) continue;
    const auto& entry = TensorOf(arrival).entry;
    timeline.End(entry.tensor_name, entry.output);
  }
}

inline void EndInTimeline(horovod::common::Timeline& timeline, const Work& work) {
  EndInTimeline(timeline, work.arrivals);
  if (!TimelineHasSpans()) return;
  AddToTimeline("buckets",
                "bucket " + std::to_string(work.bucket->id) + ", iteration " +
                    std::to_string(work.iteration) + ", set " +
                    std::to_string(work.bucket->plan->process_set) + ", plan " +
                    work.bucket->plan->hash + ", " +
                    std::to_string(work.arrivals.size()) + " tensors, " +
                    std::to_string(work.Bytes()) + " bytes",
                work.last_arrival, std::chrono::steady_clock::now());
}

}  // namespace horovod_opt
