// Ranks of a node as threads of a test, which ThreadSanitizer sees as a whole.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace horovod_opt {

// Zeroed memory, shared with children.
class Zeros {
 public:
  explicit Zeros(std::size_t bytes)
      : bytes_(bytes),
        data_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  ~Zeros() { munmap(data_, bytes_); }

  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }

  template <class Shared>
  Shared& As() const {
    return *static_cast<Shared*>(data_);
  }

 private:
  const std::size_t bytes_;
  void* const data_;
};

// Calls run(rank) on a thread for each rank and waits for all of them.
template <class Run>
void OnRanks(int ranks, const Run& run) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&run, rank] { run(rank); });
  for (std::thread& thread : threads) thread.join();
}

// A thread of which a test can say that it sleeps in the kernel, or soon will.
class Sleeper {
 public:
  template <class Body>
  explicit Sleeper(const Body& body)
      : thread_([this, body] {
          tid_ = static_cast<int>(syscall(SYS_gettid));
          body();
        }) {}

  void AwaitSleep() const {
    while (tid_ == 0 || !IsAsleep()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  void Join() { thread_.join(); }

 private:
  bool IsAsleep() const {
    std::ifstream file("/proc/self/task/" + std::to_string(tid_) + "/stat");
    std::string stat;
    std::getline(file, stat);
    const std::size_t name_end = stat.rfind(')');  // the state follows, see proc(5)
    return name_end + 2 < stat.size() && stat[name_end + 2] == 'S';
  }

  std::atomic<int> tid_{0};
  std::thread thread_;
};

}  // namespace horovod_opt
