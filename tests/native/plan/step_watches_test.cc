#include "horovod_opt/csrc/binding/hooks/step_watches.h"

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

// As TensorFlow's: callbacks run without its lock, when it is cancelled or else destroyed.
class Manager {
 public:
  ~Manager() { Cancel(); }

  int get_cancellation_token() { return tokens_++; }
  bool RegisterCallback(int token, std::function<void()> callback) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (is_cancelled_) return false;
    callbacks_[token] = std::move(callback);
    return true;
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
  int registered() const { return tokens_; }

 private:
  std::atomic<int> tokens_{0};
  std::mutex mutex_;
  bool is_cancelled_ = false;
  std::map<int, std::function<void()>> callbacks_;
};

using Keys = std::multiset<std::int64_t>;

std::mutex over_mutex;
std::map<std::int64_t, Keys> over;  // by step

void Tell(const std::vector<std::int64_t>& keys, std::int64_t step) {
  std::lock_guard<std::mutex> lock(over_mutex);
  over[step].insert(keys.begin(), keys.end());
}

class StepWatchesTest : public testing::Test {
 protected:
  void SetUp() override { over.clear(); }

  StepWatches<Manager> watches_{&Tell};
};

TEST_F(StepWatchesTest, AStepIsToldOnceOfAllItsTensorsWhenItEnds) {
  {
    Manager step;
    for (int key = 1; key <= 160; ++key) watches_.Add(&step, key, 7);
    for (int key = 1; key <= 160; ++key) watches_.Add(&step, key, 7);  // a loop's, twice
    EXPECT_EQ(step.registered(), 1);
    EXPECT_TRUE(over.empty()) << "it goes on";
  }
  EXPECT_EQ(over.size(), 1u);
  EXPECT_EQ(over[7].size(), 160u);
}

TEST_F(StepWatchesTest, ACancelledStepIsToldOfItsTensorsOnly) {
  Manager step, second;
  for (const int key : {1, 2}) watches_.Add(&step, key, 7);
  watches_.Add(&second, 3, 8);
  step.Cancel();
  EXPECT_EQ(over, (std::map<std::int64_t, Keys>{{7, {1, 2}}}));
}

TEST_F(StepWatchesTest, WhatBeginsInACancelledStepIsToldAtOnce) {
  Manager step;
  watches_.Add(&step, 1, 7);
  step.Cancel();
  watches_.Add(&step, 2, 7);
  EXPECT_EQ(over[7], (Keys{1, 2}));
}

TEST_F(StepWatchesTest, AManagerOfSeveralStepsHasOneAfterTheOther) {
  Manager steps;
  watches_.Add(&steps, 1, 7);
  watches_.Add(&steps, 1, 8);
  EXPECT_EQ(over, (std::map<std::int64_t, Keys>{{7, {1}}}));
  watches_.Add(&steps, 2, 8);
  steps.Cancel();
  EXPECT_EQ(over[8], (Keys{1, 2}));
}

// Threads of a step, which is cancelled at any moment.
TEST_F(StepWatchesTest, WhatBeginsIsToldExactlyOnce) {
  constexpr int kSteps = 300, kThreads = 3, kTensors = 20;
  for (int round = 0; round < kSteps; ++round) {
    over.clear();
    std::atomic<int> begun{0};
    {
      Manager step;
      std::vector<std::thread> threads;
      for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          for (int i = 0; i < kTensors; ++i) {
            ++begun;
            watches_.Add(&step, kTensors * thread + i, round);
          }
        });
      }
      while (begun < round % (kThreads * (kTensors - 1))) std::this_thread::yield();
      step.Cancel();
      for (std::thread& thread : threads) thread.join();
    }
    ASSERT_EQ(over[round].size(), static_cast<std::size_t>(kThreads * kTensors));
  }
}

}  // namespace step_watches_test
}  // namespace horovod_opt
