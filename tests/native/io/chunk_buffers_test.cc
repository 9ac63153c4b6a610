#include "horovod_opt/csrc/io/node_cache/chunk_buffers.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "horovod_opt/csrc/io/node_cache/node_cache_memory.h"

namespace horovod_opt {
namespace io {
namespace {

struct Punched {
  std::int64_t slot, begin, end;
};

class SlotsTest : public testing::Test {
 protected:
  Slots Make(std::int64_t count, std::int64_t memory) {
    return Slots(count, memory, [this](std::int64_t slot, std::int64_t begin, std::int64_t end) {
      punched_.push_back({slot, begin, end});
    });
  }

  const std::int64_t page_ = PageBytes();
  std::vector<Punched> punched_;
};

TEST_F(SlotsTest, AreNoMoreThanThereAreNorThanMemoryAllows) {
  Slots slots = Make(2, 10 * page_);
  EXPECT_EQ(slots.Take(10 * page_ + 1), -1);
  const std::int64_t first = slots.Take(6 * page_);
  EXPECT_EQ(slots.Take(4 * page_ + 1), -1);
  const std::int64_t second = slots.Take(0);
  EXPECT_NE(first, second);
  EXPECT_EQ(slots.Take(0), -1);
  slots.Free(first);
  EXPECT_EQ(slots.live_bytes(), 0);
  EXPECT_EQ(slots.Take(10 * page_), first);
}

TEST_F(SlotsTest, TheOneWithPagesIsTakenAgain) {
  Slots slots = Make(4, 100 * page_);
  const std::int64_t small = slots.Take(2 * page_);
  const std::int64_t large = slots.Take(9 * page_);
  slots.Free(small);
  slots.Free(large);
  EXPECT_EQ(slots.Take(5 * page_), large);
  EXPECT_EQ(slots.Take(1), small);
  EXPECT_EQ(slots.used_bytes(), 11 * page_);
  EXPECT_TRUE(punched_.empty());
}

TEST_F(SlotsTest, FreeOnesGiveTheirPagesBackBeforeMemoryIsExceeded) {
  Slots slots = Make(3, 10 * page_);
  const std::int64_t first = slots.Take(6 * page_);
  const std::int64_t second = slots.Take(4 * page_);
  slots.Free(second);
  slots.Free(first);
  ASSERT_EQ(slots.Take(5 * page_), first);
  EXPECT_TRUE(punched_.empty());
  // The other one needs a page more, which the end of the first one gives, though that is live.
  ASSERT_EQ(slots.Take(5 * page_ - 7), second);
  EXPECT_EQ(slots.used_bytes(), 10 * page_);
  ASSERT_EQ(punched_.size(), 1u);
  EXPECT_EQ(punched_[0].slot, first);
  EXPECT_EQ(punched_[0].begin, 5 * page_);
  EXPECT_EQ(punched_[0].end, 6 * page_);
}

TEST_F(SlotsTest, NeverUseMoreThanMemoryAndAPageForEachLiveChunk) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const std::int64_t memory = (1 + random() % 60) * page_;
    punched_.clear();
    Slots slots = Make(1 + random() % 9, memory);
    std::vector<std::int64_t> live, used(9, 0), bytes_of(9, 0);  // by slot; free: 0
    for (int i = 0; i < 300; ++i) {
      if (!live.empty() && random() % 2) {
        const std::size_t which = random() % live.size();
        slots.Free(live[which]);
        bytes_of[static_cast<std::size_t>(live[which])] = 0;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
      }
      const std::int64_t bytes = random() % (20 * page_);
      const std::int64_t slot = slots.Take(bytes);
      if (slot >= 0) bytes_of[static_cast<std::size_t>(slot)] = bytes;
      for (const Punched& each : punched_) {
        EXPECT_GE(each.begin, WholePages(bytes_of[static_cast<std::size_t>(each.slot)]));
        EXPECT_EQ(each.end, used[static_cast<std::size_t>(each.slot)]);
        used[static_cast<std::size_t>(each.slot)] = each.begin;
      }
      punched_.clear();
      if (slot < 0) continue;
      live.push_back(slot);
      std::int64_t& pages = used[static_cast<std::size_t>(slot)];
      pages = std::max(pages, WholePages(bytes));
      std::int64_t sum = 0;
      for (const std::int64_t each : used) sum += each;
      ASSERT_EQ(slots.used_bytes(), sum);
      ASSERT_LE(sum, memory + static_cast<std::int64_t>(live.size()) * page_);
      ASSERT_LE(slots.live_bytes(), memory);
    }
  }
}

}  // namespace
}  // namespace io
}  // namespace horovod_opt
