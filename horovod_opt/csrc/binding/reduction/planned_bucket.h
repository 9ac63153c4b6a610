// Scatter/gather list of a planned bucket: the memory of its tensors on this rank, which may have
// joined and have none; and the tensors' lines in upstream's timeline.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "horovod/common/common.h"
#include "horovod/common/message.h"
#include "horovod/common/timeline.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"
#include "horovod_opt/csrc/core/plan/arrival.h"
#include "horovod_opt/csrc/core/reduction/bucket_reduction.h"

namespace horovod_opt {

// What the ranks compare of a bucket. Not the name of its plan: ranks may have the same plan from
// functions or optimizers of different names.
inline std::string Identity(const Plan& plan, int bucket_id, std::uint64_t iteration,
                            const std::vector<int>& slots) {
  std::string text =
      plan.hash + '\t' + std::to_string(iteration) + '\t' + std::to_string(bucket_id);
  for (int slot : slots) text += '\t' + plan.slots[slot].name;
  return text;
}

inline std::vector<Segment> SegmentsOf(const Plan& plan, const std::vector<int>& slots,
                                       const std::vector<ArrivalPtr>& arrivals) {
  std::vector<Segment> segments;
  segments.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t bytes = plan.slots[slots[i]].bytes;
    if (arrivals[i] == nullptr) {
      segments.push_back({nullptr, nullptr, bytes});
    } else {
      const auto& entry = TensorOf(arrivals[i]).entry;
      segments.push_back({entry.tensor->data(), const_cast<void*>(entry.output->data()), bytes});
    }
  }
  return segments;
}

// Stays as long as what is returned, whoever else drops it.
inline std::shared_ptr<void> MemoryOf(const std::vector<ArrivalPtr>& arrivals) {
  auto tensors = std::make_shared<std::vector<std::shared_ptr<horovod::common::Tensor>>>();
  for (const ArrivalPtr& arrival : arrivals) {
    if (arrival == nullptr) continue;
    const auto& entry = TensorOf(arrival).entry;
    tensors->insert(tensors->end(), {entry.tensor, entry.output});
  }
  return tensors;
}

// Of this rank's tensors, or in their place.
inline std::int64_t BytesOf(const Work& work) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < work.slots.size(); ++i) {
    bytes += work.plan->is_call && work.arrivals[i] != nullptr
                 ? static_cast<std::int64_t>(TensorOf(work.arrivals[i]).entry.tensor->size())
                 : work.plan->slots[work.slots[i]].bytes;
  }
  return bytes;
}

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

// The tensors of a bucket in upstream's timeline.
inline void StartInTimeline(horovod::common::Timeline& timeline, const Plan& plan, int bucket_id,
                            std::uint64_t iteration, const std::vector<int>& slots,
                            const std::vector<ArrivalPtr>& arrivals) {
  if (!timeline.Initialized()) return;
  const auto type = ResponseTypeOf(plan.slots[slots[0]].collective);
  using horovod::common::Response;
  const std::string activity = "PLANNED_" + Response::ResponseType_Name(type) + ", iteration " +
                               std::to_string(iteration) + ", bucket " + std::to_string(bucket_id);
  for (const ArrivalPtr& arrival : arrivals) {
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

}  // namespace horovod_opt
