// A grace period, as in RCU: the ticks of a thread's loop that sleeps until something happens, for
// other threads that have to know that it has left what it is doing now.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace horovod_opt {

// No tick is lost, so nobody needs a timeout. Who waits reads the number of ticks, and only then
// wakes the loop, which counts its next tick before it sleeps again: the number that is waited for
// has yet to come when it is read, and the mutex does not let it come between a look and the sleep.
class LoopTicks {
 public:
  // The loop: before it sleeps, each time.
  void Tick() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++ticks_;
    }
    ticked_.notify_all();
  }

  // Another thread: returns after the next tick. What the loop is no longer to do is out of its
  // reach before. `wake`: ends the loop's sleep, the present or the next one.
  template <class Wake>
  void AwaitNext(const Wake& wake) {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::uint64_t ticks = ticks_;
    lock.unlock();
    wake();
    lock.lock();
    ticked_.wait(lock, [&] { return ticks_ != ticks; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable ticked_;
  std::uint64_t ticks_ = 0;
};

}  // namespace horovod_opt
