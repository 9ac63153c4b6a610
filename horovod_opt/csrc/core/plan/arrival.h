// Arrivals: tensors that a framework has handed over, and complete buckets of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_places.h"

namespace horovod_opt {

// What a framework's thread hands over; the binding knows what is in it. nullptr: zeros.
struct Arrival {
  virtual ~Arrival() = default;
  virtual std::string Name() const { return ""; }
  std::vector<std::int64_t> shape;
  // The step on this rank that sends it, by a number that no other step of the process has; 0:
  // unknown.
  std::int64_t step = 0;
  // Of a call without a name (unnamed_calls.h): which one it is, the same on every rank; else 0.
  std::int64_t number = 0;
  // Steps come one after the other: the next one begins only when this one is complete or left.
  bool in_turn = false;
  // Once it is back from a plan, or was not taken: why it fails, for users; empty: it is negotiated.
  // Then it may go as a call that recurs (recurring_calls.h) unless its plan warms up again after a
  // step that was abandoned: a call that waits in vain would not be told from one that is late.
  std::string failure;
  bool may_be_call = true;
  std::chrono::steady_clock::time_point since;  // it is in a bucket
  // Its data may be read; from then on always. Waits for nothing.
  virtual bool DataReady() { return true; }
};
using ArrivalPtr = std::unique_ptr<Arrival>;

constexpr int kNoBucket = -1;

// A complete bucket, to be reduced. No slots: its arrivals were taken back on every rank.
struct Work {
  const Plan* plan = nullptr;  // lives as long as the PlanRun
  int bucket_id = kNoBucket;
  std::uint64_t iteration = 0;
  std::vector<int> slots;
  std::vector<ArrivalPtr> arrivals;  // by position in `slots`
  std::chrono::steady_clock::time_point last_arrival;
  Turn turn;  // where it has a place of its own
};

// For messages: which bucket of which iteration it is, and its tensors.
inline std::string Describe(const Plan& plan, int bucket_id, std::uint64_t iteration,
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
inline std::string Describe(const Work& work) {
  return Describe(*work.plan, work.bucket_id, work.iteration, work.slots);
}

}  // namespace horovod_opt
