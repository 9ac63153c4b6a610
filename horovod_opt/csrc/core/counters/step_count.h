// The most frequent name: how many steps were trained, as far as reductions tell.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace horovod_opt {

// A step reduces each of its tensors once, so the most frequent name has been reduced once for each
// step. Only the first kNames different names are counted: those of a first step, or a part of
// them, are enough, and a program that makes up a new name for each tensor must not fill the
// memory. For one thread.
class StepCount {
 public:
  static constexpr std::size_t kNames = 1024;

  // Returns the count of the most frequent name so far.
  std::int64_t Add(const std::string& name) {
    auto count = counts_.find(name);
    if (count == counts_.end()) {
      if (counts_.size() == kNames) return largest_;
      count = counts_.emplace(name, 0).first;
    }
    largest_ = std::max(largest_, ++count->second);
    return largest_;
  }

  void Reset() {
    counts_.clear();
    largest_ = 0;
  }

 private:
  std::unordered_map<std::string, std::int64_t> counts_;
  std::int64_t largest_ = 0;
};

}  // namespace horovod_opt
