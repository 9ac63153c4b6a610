// Leaders of groups as threads of a test.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "horovod_opt/csrc/core/reduction/horovod_ops_order.h"
#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {

// The bitwise AND over all leaders, which meet in memory.
class Meeting {
 public:
  explicit Meeting(int leaders) : leaders_(leaders) {}

  // A HorovodOpsOrder::And; false after Break().
  bool And(std::vector<std::uint64_t>& words) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (present_ == 0) coming_ = words;
    for (std::size_t i = 0; i < words.size(); ++i) coming_[i] &= words[i];
    const int meeting = agreements_;
    if (++present_ == leaders_ && !broken_) {
      ++agreements_;
      present_ = 0;
      result_ = coming_;
    }
    changed_.notify_all();
    changed_.wait(lock, [&] { return agreements_ > meeting || broken_; });
    if (agreements_ == meeting) return false;
    words = result_;
    return true;
  }

  void Break() {
    std::lock_guard<std::mutex> lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

  // Until so many leaders wait for the others.
  void AwaitPresent(int leaders) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return present_ >= leaders; });
  }

  // Until there were so many results.
  void AwaitAgreements(int agreements) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return agreements_ >= agreements; });
  }

  int Agreements() {
    std::lock_guard<std::mutex> lock(mutex_);
    return agreements_;
  }

 private:
  const int leaders_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint64_t> coming_, result_;  // of the next AND, of the last one
  int present_ = 0;                             // at the next one
  int agreements_ = 0;
  bool broken_ = false;
};

// A group's leader, its queues and, from Start() on, its thread.
class Leader {
 public:
  explicit Leader(Meeting& meeting)
      : ops_order_(ready(), order(),
                   [&meeting](std::vector<std::uint64_t>& words) { return meeting.And(words); }) {}

  ReadyQueue& ready() const { return ready_memory_.As<ReadyQueue>(); }
  ReadyQueue& order() const { return order_memory_.As<ReadyQueue>(); }

  void Start() {
    thread_ = std::make_unique<Sleeper>([this] { result_ = ops_order_.Run(); });
  }
  void AwaitSleep() const { thread_->AwaitSleep(); }
  void Close() { ops_order_.Close(); }
  // Returns what Run() returned.
  bool Join() {
    thread_->Join();
    return result_;
  }

  // Waits for the entry.
  int At(std::uint64_t position) const {
    const std::atomic<bool> never{false};
    WaitCounts counts;
    int bucket_id = -1;
    EXPECT_TRUE(order().Next(position, bucket_id, never, counts));
    return bucket_id;
  }

  // Everything in `order`, after Join().
  std::vector<int> Order() const {
    std::vector<int> bucket_ids;
    for (std::uint64_t i = 0; i < order().Size(); ++i) bucket_ids.push_back(At(i));
    return bucket_ids;
  }

 private:
  const Zeros ready_memory_{ReadyQueue::Bytes()};
  const Zeros order_memory_{ReadyQueue::Bytes()};
  HorovodOpsOrder ops_order_;
  bool result_ = false;
  std::unique_ptr<Sleeper> thread_;
};

}  // namespace horovod_opt
