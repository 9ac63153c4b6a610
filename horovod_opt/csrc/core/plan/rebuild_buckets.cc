#include "horovod_opt/csrc/core/plan/rebuild_buckets.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>
#include <utility>

namespace horovod_opt {
namespace {

// A bucket of its own costs about 0.1 ms; what comes later than this is not worth waiting for.
constexpr std::int64_t kLateUs = 1000;
constexpr std::int64_t kLatePartOfIteration = 10;

std::vector<int> ByTime(const Plan& plan, const std::vector<std::int64_t>& times) {
  std::vector<std::vector<int>> before(plan.slots.size());
  std::vector<int> open(plan.slots.size(), 0);
  for (std::size_t slot = 0; slot < plan.slots.size(); ++slot) {
    for (int dependency : plan.slots[slot].after) {
      before[dependency].push_back(static_cast<int>(slot));
      ++open[slot];
    }
  }
  using Next = std::pair<std::int64_t, int>;
  std::priority_queue<Next, std::vector<Next>, std::greater<Next>> ready;
  for (std::size_t slot = 0; slot < open.size(); ++slot) {
    if (open[slot] == 0) ready.emplace(times[slot], static_cast<int>(slot));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int slot = ready.top().second;
    ready.pop();
    order.push_back(slot);
    for (int next : before[slot]) {
      if (--open[next] == 0) ready.emplace(times[next], next);
    }
  }
  return order;
}

// On some rank; where this rank's own tensor is does not matter.
bool IsOnGpu(const Slot& slot) {
  return slot.devices != nullptr && std::any_of(slot.devices->begin(), slot.devices->end(),
                                                [](int device) { return device != kMainMemory; });
}

}  // namespace

void ArrivalTimes::Add(int slot, std::uint64_t iteration, Clock::time_point now) {
  if (iteration < iteration_) return;
  if (iteration > iteration_) {
    iteration_ = iteration;
    start_ = now;
  }
  sums_us_[slot] += std::chrono::duration_cast<std::chrono::microseconds>(now - start_).count();
  ++counts_[slot];
}

std::vector<std::int64_t> ArrivalTimes::Means() const {
  std::vector<std::int64_t> means;
  for (std::size_t slot = 0; slot < counts_.size(); ++slot) {
    means.push_back(sums_us_[slot] / std::max<std::int64_t>(counts_[slot], 1));
  }
  return means;
}

Buckets RebuildBuckets(const Plan& plan, const BucketLimits& limits,
                       const std::vector<std::int64_t>& times_us, const std::set<int>& left_out) {
  const auto range = std::minmax_element(times_us.begin(), times_us.end());
  const std::int64_t late =
      std::max(kLateUs, (*range.second - *range.first) / kLatePartOfIteration);
  Buckets buckets;
  std::int64_t bytes = 0;
  std::int64_t limit = 0;  // of the last bucket
  std::int64_t previous = 0;
  bool is_first = true;
  // What a slot depends on; through one that is left out, on what that one does.
  std::vector<std::set<int>> after(plan.slots.size());
  const auto joins = [&](int number, std::int64_t time) {
    if (buckets.empty()) return false;
    const Slot& slot = plan.slots[number];
    const auto& last = buckets.back();
    const Slot& first = plan.slots[last[0]];
    return slot.reduction.IsLike(first.reduction) && slot.devices == first.devices &&
           bytes + slot.bytes <= limit && time - previous <= late &&
           std::none_of(last.begin(), last.end(),
                        [&](int dependency) { return after[number].count(dependency) > 0; });
  };
  for (int slot : ByTime(plan, times_us)) {
    for (int dependency : plan.slots[slot].after) {
      if (left_out.count(dependency) == 0) {
        after[slot].insert(dependency);
      } else {
        after[slot].insert(after[dependency].begin(), after[dependency].end());
      }
    }
    if (left_out.count(slot) > 0) continue;
    if (!joins(slot, times_us[slot])) {
      const bool on_gpu = IsOnGpu(plan.slots[slot]);
      limit = limits.Of(on_gpu, is_first);
      is_first = is_first && !on_gpu;
      buckets.emplace_back();
      bytes = 0;
    }
    buckets.back().push_back(slot);
    bytes += plan.slots[slot].bytes;
    previous = times_us[slot];
  }
  return buckets;
}

}  // namespace horovod_opt
