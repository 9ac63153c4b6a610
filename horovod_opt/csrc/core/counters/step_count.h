// How many steps were trained, by the tensor that was reduced most often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace horovod_opt {

// A tensor is reduced once a step, so that the most frequent one tells the number of steps. Only
// the first kNames different names are counted: those of a first step, or a part of them, are
// enough, and a program that makes up a new name for each tensor must not fill the memory. For one
// thread.
class StepCount {
 public:
  static constexpr std::size_t kNames = 1024;

  // Returns the count of the most frequent name so far.
  std::int64_t Add(const std::string& name);

  void Reset();

 private:
  std::unordered_map<std::string, std::int64_t> counts_;
  std::int64_t largest_ = 0;
};

}  // namespace horovod_opt
