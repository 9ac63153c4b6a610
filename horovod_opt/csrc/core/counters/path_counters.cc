#include "horovod_opt/csrc/core/counters/path_counters.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace horovod_opt {
namespace {

pid_t OwnTid() { return static_cast<pid_t>(syscall(SYS_gettid)); }

}  // namespace

LaneCounters::Values LaneCounters::Read() const {
  return {Load(passes_),
          Load(buckets_),
          Load(bytes_),
          Load(wakeups_),
          Load(rounds_),
          Load(steady_rounds_),
          Load(agreements_),
          std::chrono::nanoseconds(Load(data_)),
          std::chrono::nanoseconds(Load(latency_))};
}

ThreadUsage LaneCounters::Usage() const {
  std::lock_guard<std::mutex> lock(mutex_);
  ThreadUsage usage = ended_;
  for (const pid_t thread : threads_) usage += ReadThreadUsage(thread);
  return usage;
}

void LaneCounters::BeginThread() {
  std::lock_guard<std::mutex> lock(mutex_);
  threads_.push_back(OwnTid());
}

void LaneCounters::EndThread() {
  std::lock_guard<std::mutex> lock(mutex_);
  ended_ += ReadOwnThreadUsage();
  threads_.erase(std::find(threads_.begin(), threads_.end(), OwnTid()));
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
                           &rounds_before_, &steady_rounds_, &agreements_}) {
    counter->store(0, std::memory_order_relaxed);
  }
  steady_ = false;
  std::lock_guard<std::mutex> lock(mutex_);
  ended_ = {};
}

}  // namespace horovod_opt
