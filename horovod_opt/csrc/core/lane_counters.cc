#include "lane_counters.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace horovod_opt {

LaneCounters::Values LaneCounters::Read() const {
  return {Load(passes_),
          Load(buckets_),
          Load(bytes_),
          Load(wakeups_),
          Load(rounds_),
          Load(steady_rounds_),
          std::chrono::nanoseconds(Load(data_)),
          std::chrono::nanoseconds(Load(latency_))};
}

ThreadUsage LaneCounters::Usage() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return tid_ == 0 ? usage_at_end_ : ReadThreadUsage(tid_);
}

void LaneCounters::BeginThread() {
  std::lock_guard<std::mutex> lock(mutex_);
  tid_ = static_cast<pid_t>(syscall(SYS_gettid));
}

void LaneCounters::EndThread() {
  std::lock_guard<std::mutex> lock(mutex_);
  usage_at_end_ = ReadOwnThreadUsage();
  tid_ = 0;
}

void LaneCounters::AddBucket(std::int64_t bytes, std::chrono::nanoseconds data,
                             std::chrono::nanoseconds latency) {
  Add(buckets_, 1);
  Add(bytes_, bytes);
  Add(data_, data.count());
  Add(latency_, latency.count());
}

void LaneCounters::Reset() {
  for (Counter* counter : {&passes_, &buckets_, &bytes_, &wakeups_, &data_, &latency_, &rounds_,
                           &rounds_before_, &steady_rounds_}) {
    counter->store(0, std::memory_order_relaxed);
  }
  steady_ = false;
  std::lock_guard<std::mutex> lock(mutex_);
  usage_at_end_ = {};
}

}  // namespace horovod_opt
