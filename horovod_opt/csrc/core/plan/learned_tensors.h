// What the first iteration tells of a plan's tensors and the graph does not: shape and device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {

class LearnedTensors {
 public:
  explicit LearnedTensors(std::size_t slots) : first_(slots) {}

  // The tensor of `slot` has this shape. Returns in what it differs from the first; empty: in
  // nothing.
  std::string See(int slot, const std::vector<std::int64_t>& shape);

 private:
  struct First {
    bool seen = false;
    std::vector<std::int64_t> shape;
  };
  std::vector<First> first_;
};

// Of `plan`, by slot, on this rank; empty: all are in main memory.
Devices LearnedDevices(const Plan& plan);

// Which tensors stand in the way of a bucket because they are on different devices; empty: none.
std::string MixedDevices(const Plan& plan, const Buckets& buckets);

}  // namespace horovod_opt
