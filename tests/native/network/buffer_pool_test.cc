#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/network/nonblocking_collective.h"

namespace horovod_opt {
namespace buffer_pool_test {

constexpr std::int64_t kKiB = 1 << 10;

// As an allgather whose ranks give more each time: its room must not add up.
TEST(BufferPool, GrowsWithTheLargestAndNotWithTheSum) {
  BufferPool pool(0);
  std::int64_t allocations = 0;
  for (std::int64_t bytes = 64 * kKiB; bytes <= 16384 * kKiB; bytes += 64 * kKiB) {
    const std::int64_t before = pool.room();
    BufferPool::Buffer gives = pool.Take(bytes / 2), gets = pool.Take(bytes);
    EXPECT_EQ(gets.bytes, bytes);
    allocations += pool.room() != before;
    pool.Return(std::move(gives));
    pool.Return(std::move(gets));
    ASSERT_LE(pool.room(), 2 * (2 * bytes + bytes));
  }
  EXPECT_LE(allocations, 2 * 9) << "once for each power of two";
}

TEST(BufferPool, NeverHasMoreThanTwiceWhatWasInUseAtOnce) {
  std::minstd_rand random(3);
  BufferPool pool(0);
  std::vector<BufferPool::Buffer> buffers;
  std::int64_t in_use = 0, most = 0;
  for (int step = 0; step < 20000; ++step) {
    if (!buffers.empty() && random() % 2 == 0) {
      const std::size_t any = random() % buffers.size();
      std::swap(buffers[any], buffers.back());
      in_use -= buffers.back().room;
      pool.Return(std::move(buffers.back()));
      buffers.pop_back();
      continue;
    }
    if (buffers.size() > 20) continue;
    const auto bytes = static_cast<std::int64_t>(random() % (1u << random() % 20));
    buffers.push_back(pool.Take(bytes));
    ASSERT_GE(buffers.back().room, bytes);
    buffers.back().data[buffers.back().room - 1] = 1;
    in_use += buffers.back().room;
    most = std::max(most, in_use);
    ASSERT_LE(pool.room(), 2 * most);
    ASSERT_GE(pool.room(), in_use);
  }
}

// What a training does: the same in each step.
TEST(BufferPool, AllocatesNothingInTheSecondStep) {
  BufferPool pool(0);
  for (int step = 0; step < 3; ++step) {
    std::vector<BufferPool::Buffer> buffers;
    for (std::int64_t bytes : {700, 70000, 300000, 70001}) buffers.push_back(pool.Take(bytes));
    const std::int64_t room = pool.room();
    for (auto& buffer : buffers) pool.Return(std::move(buffer));
    EXPECT_EQ(room, (4 + 128 + 512 + 128) * kKiB);
  }
}

// The thread that ends a chunk returns what it may never have taken.
TEST(BufferPool, WhatHasBeenMovedAwayIsNotReturnedTwice) {
  BufferPool pool(100 * kKiB);
  BufferPool::Buffer buffer = pool.Take(60 * kKiB);
  EXPECT_FALSE(pool.HasRoom(60 * kKiB));
  pool.Return(std::move(buffer));
  pool.Return(std::move(buffer));
  pool.Return({});
  BufferPool::Buffer again = pool.Take(60 * kKiB);
  EXPECT_FALSE(pool.HasRoom(60 * kKiB));
  EXPECT_TRUE(pool.HasRoom(40 * kKiB));
  pool.Return(std::move(again));
}

}  // namespace buffer_pool_test
}  // namespace horovod_opt
