#include "horovod_opt/csrc/core/counters/path_counters.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace horovod_opt {
namespace {

pid_t OwnTid() { return static_cast<pid_t>(syscall(SYS_gettid)); }

}  // namespace

PathCounters::Values PathCounters::Read() const {
  return {Load(iterations_),
          Load(buckets_),
          Load(bytes_),
          Load(wakeups_),
          Load(rounds_),
          Load(steady_rounds_),
          Load(agreements_),
          std::chrono::nanoseconds(Load(data_)),
          std::chrono::nanoseconds(Load(latency_))};
}

ThreadUsage PathCounters::Usage() const {
  std::lock_guard<std::mutex> lock(mutex_);
  ThreadUsage usage = past_usage_;
  for (const pid_t thread : threads_) usage += ReadThreadUsage(thread);
  return usage;
}

void PathCounters::BeginThread() {
  std::lock_guard<std::mutex> lock(mutex_);
  threads_.push_back(OwnTid());
}

void PathCounters::EndThread() {
  std::lock_guard<std::mutex> lock(mutex_);
  past_usage_ += ReadOwnThreadUsage();
  threads_.erase(std::find(threads_.begin(), threads_.end(), OwnTid()));
}

void PathCounters::AddBucket(std::int64_t bytes, std::chrono::nanoseconds data,
                             std::chrono::nanoseconds latency) {
  Add(buckets_, 1);
  Add(bytes_, bytes);
  Add(data_, data.count());
  Add(latency_, latency.count());
}

void PathCounters::Reset() {
  for (Counter* counter : {&iterations_, &buckets_, &bytes_, &wakeups_, &data_, &latency_, &rounds_,
                           &rounds_before_, &steady_rounds_, &agreements_}) {
    counter->store(0, std::memory_order_relaxed);
  }
  steady_ = false;
  std::lock_guard<std::mutex> lock(mutex_);
  past_usage_ = {};
}

}  // namespace horovod_opt
