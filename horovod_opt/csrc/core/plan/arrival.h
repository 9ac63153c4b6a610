// Arrivals: tensors that a framework has handed over, as the core knows them. What the core needs is
// said once, at the door; what is the framework's is asked when it is needed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/elements/tensor_view.h"
#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {

struct Arrival {
  // --- the framework's ---
  virtual ~Arrival() = default;
  virtual std::string Name() const { return ""; }
  // Its data may be read; from then on always. Waits for nothing.
  virtual bool DataReady() { return true; }
  // Its data and its result stay as long as this, whoever drops the arrival.
  virtual std::shared_ptr<void> Memory() const { return nullptr; }
  // Of an allgather: memory for a result of `all` rows, which stays as long as this; nullptr: there
  // is none, and the arrival knows why. The other ranks are in the middle of the call, so nothing
  // is thrown.
  virtual std::shared_ptr<char> AllocateResult(std::int64_t all) {
    static_cast<void>(all);
    return nullptr;
  }

  bool HasData() { return has_data || DataReady(); }

  // --- what it is ---
  bool has_data = false;   // it can be read: DataReady() need not be asked
  std::int64_t bytes = 0;  // as in Slot
  Reduction reduction;
  std::vector<std::int64_t> shape;  // of an allgather: of a row
  std::int64_t rows = 1;            // of an allgather: in the first dimension
  std::string obstacle;             // why it cannot be planned; empty: it can
  // Its data, and where the result goes; of an allgather nowhere yet.
  Segment segment{nullptr, nullptr, 0};
  // The step on this rank that sends it, by a number that no other step of the process has; 0:
  // unknown.
  std::int64_t step = 0;
  // Of a call without a name (unnamed_calls.h): which one it is, the same on every rank; else 0.
  std::int64_t number = 0;
  // Steps come one after the other: the next one begins only when this one is complete or left.
  bool in_turn = false;

  // --- what has become of it ---
  // Once it is back from a plan, or was not taken: why it fails, for users; empty: it is negotiated.
  // Then it may go as a call that recurs (recurring_calls.h) unless its plan warms up again after a
  // step that was abandoned: a call that waits in vain would not be told from one that is late.
  std::string failure;
  bool may_be_call = true;
  std::chrono::steady_clock::time_point since;  // it is in a bucket
};
using ArrivalPtr = std::unique_ptr<Arrival>;  // nullptr: zeros, of a rank that has joined

}  // namespace horovod_opt
