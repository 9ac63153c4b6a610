// Ticket lock: a mutex that whoever has waited longest gets next.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace horovod_opt {
namespace io {

// With std::mutex a thread that lets go and comes back at once often overtakes those that sleep.
class FifoMutex {
 public:
  void lock() {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::int64_t own = next_++;
    turned_.wait(lock, [&] { return turn_ == own; });
  }

  void unlock() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++turn_;
    }
    turned_.notify_all();
  }

  // Threads that have it or wait for it.
  std::int64_t users() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return next_ - turn_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable turned_;
  std::int64_t next_ = 0, turn_ = 0;
};

}  // namespace io
}  // namespace horovod_opt
