// Cancellation callbacks: which steps of TensorFlow have planned tensors under way, so that a plan
// hears when one of them fails. A step's cancellation is asked once for all its tensors that are
// under way together: it keeps a table, and takes as long as an arrival for each entry.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace horovod_opt {

// `Manager`: tensorflow::CancellationManager, one for each step, which lives until all tensors of
// the step have come to End(). It calls back without locks of its own.
template <class Manager>
class StepWatches {
 public:
  using Failed = void (*)(std::int64_t key);

  // `failed` is told the key of each tensor that was under way, or begins, in a step that fails.
  explicit StepWatches(Failed failed) : failed_(failed) {}

  // False: the step has failed, and End() does not follow.
  bool Begin(Manager* manager, std::int64_t key) {
    if (Add(manager, key)) return true;
    failed_(key);
    return false;
  }

  void End(Manager* manager) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto step = steps_.find(manager);
    if (--step->second.under_way > 0) return;
    manager->TryDeregisterCallback(step->second.token);
    steps_.erase(step);
  }

 private:
  using Token = decltype(static_cast<Manager*>(nullptr)->get_cancellation_token());

  struct Step {
    Token token{};
    int under_way = 0;
    bool has_failed = false;
    std::unordered_set<std::int64_t> keys;
  };

  bool Add(Manager* manager, std::int64_t key) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto [entry, is_new] = steps_.try_emplace(manager);
    Step& step = entry->second;
    if (is_new) {
      step.token = manager->get_cancellation_token();
      if (!manager->RegisterCallback(step.token, [this, manager] { Fail(manager); })) {
        steps_.erase(entry);
        return false;
      }
    }
    if (step.has_failed) return false;
    step.keys.insert(key);
    ++step.under_way;
    return true;
  }

  void Fail(Manager* manager) {
    std::vector<std::int64_t> keys;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto step = steps_.find(manager);
      if (step == steps_.end()) return;  // the last one has just ended
      step->second.has_failed = true;
      keys.assign(step->second.keys.begin(), step->second.keys.end());
    }
    for (const std::int64_t key : keys) failed_(key);
  }

  const Failed failed_;
  std::mutex mutex_;
  std::unordered_map<Manager*, Step> steps_;
};

}  // namespace horovod_opt
