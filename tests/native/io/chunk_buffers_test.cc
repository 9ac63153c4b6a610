#include "horovod_opt/csrc/io/node_cache/chunk_buffers.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "horovod_opt/csrc/io/node_cache/node_cache_memory.h"

namespace horovod_opt {
namespace io {
namespace chunk_buffers_test {

struct Range {
  std::int64_t buffer, begin, end;
};

class ChunkBuffersTest : public testing::Test {
 protected:
  ChunkBuffers Make(std::int64_t count, std::int64_t memory) {
    return ChunkBuffers(count, memory, [this](std::int64_t buffer, std::int64_t begin,
                                              std::int64_t end) {
      punches_.push_back({buffer, begin, end});
    });
  }

  const std::int64_t page_ = PageBytes();
  std::vector<Range> punches_;
};

TEST_F(ChunkBuffersTest, AreNoMoreThanThereAreNorThanMemoryAllows) {
  ChunkBuffers buffers = Make(2, 10 * page_);
  EXPECT_EQ(buffers.Take(10 * page_ + 1), -1);
  const std::int64_t first = buffers.Take(6 * page_);
  EXPECT_EQ(buffers.Take(4 * page_ + 1), -1);
  const std::int64_t second = buffers.Take(0);
  EXPECT_NE(first, second);
  EXPECT_EQ(buffers.Take(0), -1);
  buffers.Free(first);
  EXPECT_EQ(buffers.live_bytes(), 0);
  EXPECT_EQ(buffers.Take(10 * page_), first);
}

TEST_F(ChunkBuffersTest, TheOneWithPagesIsTakenAgain) {
  ChunkBuffers buffers = Make(4, 100 * page_);
  const std::int64_t small = buffers.Take(2 * page_);
  const std::int64_t large = buffers.Take(9 * page_);
  buffers.Free(small);
  buffers.Free(large);
  EXPECT_EQ(buffers.Take(5 * page_), large);
  EXPECT_EQ(buffers.Take(1), small);
  EXPECT_EQ(buffers.used_bytes(), 11 * page_);
  EXPECT_TRUE(punches_.empty());
}

TEST_F(ChunkBuffersTest, FreeOnesGiveTheirPagesBackBeforeMemoryIsExceeded) {
  ChunkBuffers buffers = Make(3, 10 * page_);
  const std::int64_t first = buffers.Take(6 * page_);
  const std::int64_t second = buffers.Take(4 * page_);
  buffers.Free(second);
  buffers.Free(first);
  ASSERT_EQ(buffers.Take(5 * page_), first);
  EXPECT_TRUE(punches_.empty());
  // The other one needs a page more, which the end of the first one gives, though that is live.
  ASSERT_EQ(buffers.Take(5 * page_ - 7), second);
  EXPECT_EQ(buffers.used_bytes(), 10 * page_);
  ASSERT_EQ(punches_.size(), 1u);
  EXPECT_EQ(punches_[0].buffer, first);
  EXPECT_EQ(punches_[0].begin, 5 * page_);
  EXPECT_EQ(punches_[0].end, 6 * page_);
}

TEST_F(ChunkBuffersTest, NeverUseMoreThanMemoryAndAPageForEachLiveChunk) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t memory = (1 + random() % 60) * page_;
    punches_.clear();
    ChunkBuffers buffers = Make(1 + random() % 9, memory);
    std::vector<std::int64_t> live, used(9, 0), bytes_of(9, 0);  // by chunk buffer; free: 0
    for (int i = 0; i < 300; ++i) {
      if (!live.empty() && random() % 2) {
        const std::size_t which = random() % live.size();
        buffers.Free(live[which]);
        bytes_of[static_cast<std::size_t>(live[which])] = 0;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      }
      const std::int64_t bytes = random() % (20 * page_);
      const std::int64_t buffer = buffers.Take(bytes);
      if (buffer >= 0) bytes_of[static_cast<std::size_t>(buffer)] = bytes;
      for (const Range& range : punches_) {
        EXPECT_GE(range.begin, WholePages(bytes_of[static_cast<std::size_t>(range.buffer)]));
        EXPECT_EQ(range.end, used[static_cast<std::size_t>(range.buffer)]);
        used[static_cast<std::size_t>(range.buffer)] = range.begin;
      }
      punches_.clear();
      if (buffer < 0) continue;
      live.push_back(buffer);
      std::int64_t& pages = used[static_cast<std::size_t>(buffer)];
      pages = std::max(pages, WholePages(bytes));
      std::int64_t sum = 0;
      for (const std::int64_t range : used) sum += range;
      ASSERT_EQ(buffers.used_bytes(), sum);
      ASSERT_LE(sum, memory + static_cast<std::int64_t>(live.size()) * page_);
      ASSERT_LE(buffers.live_bytes(), memory);
    }
  }
}

}  // namespace chunk_buffers_test
}  // namespace io
}  // namespace horovod_opt
