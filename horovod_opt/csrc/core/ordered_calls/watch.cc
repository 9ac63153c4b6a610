#include "horovod_opt/csrc/core/ordered_calls/watch.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace horovod_opt {
namespace watch {
namespace {

constexpr std::chrono::milliseconds kTick(100);

class Thread {
 public:
  Thread() {
    std::atexit([] { One().Leave(); });
    thread_ = std::thread([this] { Run(); });
    id_ = thread_.get_id();
    thread_.detach();
  }

  // Never destroyed: its thread lives as long as the process. A forked child has none, and starts
  // its own.
  static Thread& One() {
    static std::mutex mutex;
    static Thread* one = nullptr;
    static pid_t process = 0;
    std::lock_guard<std::mutex> lock(mutex);
    if (process != getpid()) {
      one = new Thread;
      process = getpid();
    }
    return *one;
  }

  void Add(const std::weak_ptr<Watched>& watched) {
    std::lock_guard<std::mutex> lock(mutex_);
    watched_.push_back(watched);
    changed_.notify_all();
  }

  void Do(const std::function<void()>& function) {
    if (std::this_thread::get_id() == id_) return function();
    std::packaged_task<void()> task(function);
    std::future<void> done = task.get_future();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
      changed_.notify_all();
    }
    done.get();
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      const auto has_work = [&] { return !tasks_.empty(); };
      if (watched_.empty()) {
        changed_.wait(lock, [&] { return has_work() || !watched_.empty(); });
      } else {
        changed_.wait_for(lock, kTick, has_work);
      }
      while (has_work()) {
        std::packaged_task<void()> task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        task();
        lock.lock();
      }
      std::vector<std::shared_ptr<Watched>> all = Living();
      lock.unlock();
      for (const auto& one : all) one->LookAfter();
      all.clear();  // the last one to have it may be this thread
      lock.lock();
    }
  }

  std::vector<std::shared_ptr<Watched>> Living() {
    std::vector<std::shared_ptr<Watched>> living;
    std::vector<std::weak_ptr<Watched>> still;
    for (const auto& one : watched_) {
      if (auto watched = one.lock()) {
        living.push_back(std::move(watched));
        still.push_back(one);
      }
    }
    watched_ = std::move(still);
    return living;
  }

  void Leave() {
    std::vector<std::shared_ptr<Watched>> all;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      all = Living();
    }
    for (const auto& one : all) one->LeaveAtExit();
    // Destroyed by nobody: the process ends.
    new std::vector<std::shared_ptr<Watched>>(std::move(all));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> tasks_;
  std::vector<std::weak_ptr<Watched>> watched_;
  std::thread thread_;
  std::thread::id id_;
};

}  // namespace

void Add(const std::weak_ptr<Watched>& watched) { Thread::One().Add(watched); }

void Do(const std::function<void()>& function) { Thread::One().Do(function); }

}  // namespace watch
}  // namespace horovod_opt
