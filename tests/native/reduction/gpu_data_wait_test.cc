#include "horovod_opt/csrc/core/reduction/gpu_data_wait.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace horovod_opt {
namespace gpu_data_wait_test {

using namespace std::chrono_literals;

// Its data changes until it is ready. Nothing but `ready` orders the two threads, so that
// ThreadSanitizer notices a look at the data before.
struct Late : Arrival {
  bool DataReady() override {
    looks.fetch_add(1, std::memory_order_relaxed);
    return ready.load(std::memory_order_acquire);
  }

  void AwaitLooks(int least) const {
    while (looks.load(std::memory_order_relaxed) < least) std::this_thread::yield();
  }

  // What a copy would do, from another thread.
  void Fill(int last) {
    for (int value = -last; value < last; ++value) {
      data = value;
      if (value % 8 == 0) std::this_thread::sleep_for(1ms);
    }
    data = last;
    ready.store(true, std::memory_order_release);
  }

  std::atomic<int> looks{0};
  int data = 0;
  std::atomic<bool> ready{false};
};

class AwaitDataTest : public testing::Test {
 protected:
  Late& Add() {
    auto late = std::make_unique<Late>();
    Late& added = *late;
    arrivals_.push_back(std::move(late));
    return added;
  }

  std::vector<ArrivalPtr> arrivals_;
  std::atomic<bool> stop_{false};
};

TEST_F(AwaitDataTest, ReturnsWhenTheLastIsReady) {
  Late& first = Add();
  Late& second = Add();
  std::thread copies([&] {
    second.Fill(20);
    first.AwaitLooks(1);
    first.Fill(30);
  });
  EXPECT_TRUE(AwaitData(arrivals_, stop_));
  EXPECT_EQ(first.data, 30);
  EXPECT_EQ(second.data, 20);
  EXPECT_GT(first.looks, 1);
  copies.join();
}

TEST_F(AwaitDataTest, WhatIsReadyCostsOneLook) {
  Late& arrival = Add();
  arrival.ready = true;
  EXPECT_TRUE(AwaitData(arrivals_, stop_));
  EXPECT_EQ(arrival.looks, 1);
}

TEST_F(AwaitDataTest, ZerosAndTensorsWithoutAnEventAreReady) {
  arrivals_.push_back(nullptr);
  arrivals_.push_back(std::make_unique<Arrival>());
  EXPECT_TRUE(AwaitData(arrivals_, stop_));
}

TEST_F(AwaitDataTest, EndsWhenToldToStop) {
  Late& never = Add();
  std::thread stopper([&] {
    never.AwaitLooks(2);
    stop_ = true;
  });
  EXPECT_FALSE(AwaitData(arrivals_, stop_));
  EXPECT_GT(never.looks, 1);
  stopper.join();
}

TEST_F(AwaitDataTest, SleepsLongerBetweenLooks) {
  struct AtTheSeventhLook : Arrival {
    bool DataReady() override { return ++looks == 7; }
    int looks = 0;
  };
  arrivals_.push_back(std::make_unique<AtTheSeventhLook>());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(AwaitData(arrivals_, stop_));
  EXPECT_GE(std::chrono::steady_clock::now() - start, (20 + 40 + 80 + 160 + 320 + 500) * 1us);
}

TEST_F(AwaitDataTest, IterationsOnWhatALookThrows) {
  struct Broken : Arrival {
    bool DataReady() override { throw std::runtime_error("illegal address"); }
  };
  arrivals_.push_back(std::make_unique<Broken>());
  EXPECT_THROW(AwaitData(arrivals_, stop_), std::runtime_error);
}

}  // namespace gpu_data_wait_test
}  // namespace horovod_opt
