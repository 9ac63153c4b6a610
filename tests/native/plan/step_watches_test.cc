#include "horovod_opt/csrc/core/plan/step_watches.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace horovod_opt {
namespace step_watches_test {

// As TensorFlow's: callbacks run without its lock, and deregistering does not wait for them.
class Manager {
 public:
  ~Manager() { EXPECT_TRUE(callbacks_.empty()) << "nobody may call back any more"; }

  int get_cancellation_token() { return tokens_++; }
  bool RegisterCallback(int token, std::function<void()> callback) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_cancelled_) return false;
    ++registered_;
    callbacks_[token] = std::move(callback);
    return true;
  }
  bool TryDeregisterCallback(int token) {
    std::lock_guard<std::mutex> lock(mutex_);
    return callbacks_.erase(token) > 0;
  }
  void Cancel() {
    std::map<int, std::function<void()>> callbacks;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_cancelled_ = true;
      callbacks.swap(callbacks_);
    }
    for (const auto& [token, callback] : callbacks) callback();
  }
  int registered() const { return registered_; }

 private:
  std::atomic<int> tokens_{0};
  std::mutex mutex_;
  bool is_cancelled_ = false;
  int registered_ = 0;
  std::map<int, std::function<void()>> callbacks_;
};

std::mutex failed_mutex;
std::multiset<std::int64_t> failed;

void Fail(std::int64_t key) {
  std::lock_guard<std::mutex> lock(failed_mutex);
  failed.insert(key);
}

using Keys = std::multiset<std::int64_t>;

class StepWatchesTest : public testing::Test {
 protected:
  void SetUp() override { failed.clear(); }

  StepWatches<Manager> watches_{&Fail};
};

TEST_F(StepWatchesTest, OneRegistrationForAllTensorsThatAreUnderWayTogether) {
  Manager step;
  for (int key = 1; key <= 160; ++key) ASSERT_TRUE(watches_.Begin(&step, key));
  for (int key = 1; key <= 160; ++key) watches_.End(&step);
  EXPECT_EQ(step.registered(), 1);
  step.Cancel();
  EXPECT_TRUE(failed.empty()) << "nothing is under way";
}

TEST_F(StepWatchesTest, AFailedStepIsToldOfEachOfItsTensorsOnly) {
  Manager step, second;
  for (const int key : {1, 2, 2}) ASSERT_TRUE(watches_.Begin(&step, key));  // a loop's, twice
  ASSERT_TRUE(watches_.Begin(&second, 3));
  step.Cancel();
  EXPECT_EQ(failed, (Keys{1, 2}));
  for (int i = 0; i < 3; ++i) watches_.End(&step);
  watches_.End(&second);
  second.Cancel();
  EXPECT_EQ(failed, (Keys{1, 2}));
}

TEST_F(StepWatchesTest, WhatBeginsInAFailedStepIsToldAtOnce) {
  Manager step;
  ASSERT_TRUE(watches_.Begin(&step, 1));
  step.Cancel();
  EXPECT_FALSE(watches_.Begin(&step, 2));
  EXPECT_EQ(failed, (Keys{1, 2}));
  watches_.End(&step);
  EXPECT_FALSE(watches_.Begin(&step, 3)) << "none is under way";
  EXPECT_EQ(failed, (Keys{1, 2, 3}));
}

// Threads of a step, which fails at any moment. The last tensor of each does not end before.
TEST_F(StepWatchesTest, WhatIsUnderWayOrBeginsIsToldExactlyOnce) {
  constexpr int kSteps = 300, kThreads = 3, kTensors = 20;
  for (int round = 0; round < kSteps; ++round) {
    failed.clear();
    Manager step;
    std::atomic<int> begun{0}, remaining{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 1; i < kTensors; ++i) {
          ++begun;
          if (watches_.Begin(&step, 1000 + i)) watches_.End(&step);
        }
        if (watches_.Begin(&step, thread)) ++remaining;
      });
    }
    while (begun < round % (kThreads * (kTensors - 1))) std::this_thread::yield();
    step.Cancel();
    for (std::thread& thread : threads) thread.join();
    for (int thread = 0; thread < kThreads; ++thread) ASSERT_EQ(failed.count(thread), 1u);
    for (; remaining > 0; --remaining) watches_.End(&step);
  }
}

}  // namespace step_watches_test
}  // namespace horovod_opt
