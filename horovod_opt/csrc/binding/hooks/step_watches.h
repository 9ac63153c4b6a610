// Cancellation callbacks: which steps of TensorFlow have sent planned tensors, so that their plans
// hear when a step is over: at its cancellation, or its end.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace horovod_opt {

// `Manager`: tensorflow::CancellationManager, mostly one for each step. It calls back once, without
// locks of its own: when it is cancelled, else when it is destroyed.
template <class Manager>
class StepWatches {
 public:
  using Over = void (*)(const std::vector<std::int64_t>& keys, std::int64_t step);

  // `over` is told each step that is over, and which of its tensors had been sent.
  explicit StepWatches(Over over) : over_(over) {}

  // A tensor of this step is about to be sent.
  void Add(Manager* manager, std::int64_t key, std::int64_t step) {
    const Step over = AddTo(manager, key, step);
    if (!over.keys.empty()) Tell(over);
  }

 private:
  struct Step {
    std::int64_t number = 0;
    std::unordered_set<std::int64_t> keys;  // a loop sends its tensors again and again
  };

  void Tell(const Step& step) const { over_({step.keys.begin(), step.keys.end()}, step.number); }

  // Returns what is over already.
  Step AddTo(Manager* manager, std::int64_t key, std::int64_t number) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto [entry, is_new] = steps_.try_emplace(manager);
    Step& step = entry->second;
    if (is_new) {
      step.number = number;
      if (!manager->RegisterCallback(manager->get_cancellation_token(),
                                     [this, manager] { Finish(manager); })) {
        steps_.erase(entry);
        return {number, {key}};
      }
    }
    Step before;
    if (step.number != number) before = std::exchange(step, {number, {}});
    step.keys.insert(key);
    return before;
  }

  void Finish(Manager* manager) {
    Step step;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto entry = steps_.find(manager);
      step = std::move(entry->second);
      steps_.erase(entry);
    }
    Tell(step);
  }

  const Over over_;
  std::mutex mutex_;
  std::unordered_map<Manager*, Step> steps_;
};

}  // namespace horovod_opt
