#include "horovod_opt/csrc/io/files/fifo_mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

namespace horovod_opt {
namespace io {
namespace fifo_mutex_test {

TEST(FifoMutexTest, OneThreadAtATimeHasIt) {
  FifoMutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 500; ++j) {
        std::lock_guard<FifoMutex> lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 2000);
}

TEST(FifoMutexTest, WhoComesBackIsBehindWhoWaits) {
  FifoMutex mutex;
  std::vector<int> order;
  mutex.lock();
  std::thread waits([&] {
    std::lock_guard<FifoMutex> lock(mutex);
    order.push_back(1);
  });
  while (mutex.users() < 2) std::this_thread::yield();
  mutex.unlock();
  mutex.lock();
  order.push_back(0);
  mutex.unlock();
  waits.join();
  EXPECT_EQ(order, (std::vector<int>{1, 0}));
}

}  // namespace fifo_mutex_test
}  // namespace io
}  // namespace horovod_opt
