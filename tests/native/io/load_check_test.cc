#include "horovod_opt/csrc/io/node_cache/load_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace horovod_opt {
namespace io {
namespace load_check_test {

// What the check says, or "".
std::string Message(LoadCheck& check, const Load& load) {
  try {
    check.Add(load);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(LoadCheck, StepsMustBeInOrder) {
  LoadCheck check({1, 9, 100, 1000, 5}, 64);
  EXPECT_TRUE(Has(Message(check, {4, 9, 1, {}}), "in the order of their first steps"));
  EXPECT_EQ(Message(check, {6, 9, 1, {}}), "");
  EXPECT_TRUE(Has(Message(check, {5, 9, 1, {}}), "comes after one of step 6"));
  EXPECT_TRUE(Has(Message(check, {7, 6, 1, {}}), "load 1 (steps 7 to 6, 1 bytes)"));
  EXPECT_EQ(Message(check, {6, 6, 1, {}}), "");
}

TEST(LoadCheck, ExtentsMustBeInsideOfTheBuffer) {
  LoadCheck check({1, 9, 100, 1000, 0}, 64);
  EXPECT_TRUE(Has(Message(check, {0, 0, 101, {}}), "does not fit into a slot of 100 bytes"));
  EXPECT_TRUE(Has(Message(check, {0, 0, -1, {}}), "does not fit"));
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const Extent& wrong : {Extent{0, -1, 1, 0}, Extent{0, 0, -1, 0}, Extent{0, 0, 1, -1},
                              Extent{0, 0, 50, 51}, Extent{0, 0, 101, 0},
                              Extent{0, 0, huge, huge}}) {
    EXPECT_TRUE(Has(Message(check, {0, 0, 100, {wrong}}), "has an extent of"));
  }
  EXPECT_EQ(Message(check, {0, 0, 100, {{0, 7, 50, 50}, {0, 0, 0, 100}}}), "");
}

TEST(LoadCheck, MemoryMustBeEnoughForEachStep) {
  LoadCheck check({1, 9, 100, 150, 0}, 64);
  EXPECT_EQ(Message(check, {0, 2, 100, {}}), "");
  EXPECT_EQ(Message(check, {1, 1, 50, {}}), "");
  EXPECT_TRUE(Has(Message(check, {2, 2, 51, {}}),
                  "step 2 needs 2 chunks with 151 bytes at once, but memory= is 150 bytes"));
  EXPECT_EQ(Message(check, {3, 3, 100, {}}), "");
}

TEST(LoadCheck, BuffersAndTableMustBeEnough) {
  LoadCheck few_buffers({1, 2, 100, 1000, 0}, 64);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Message(few_buffers, {0, 1, 1, {}}), "");
  EXPECT_TRUE(Has(Message(few_buffers, {1, 1, 1, {}}), "but the ring has 2 slots"));
  LoadCheck small_table({1, 9, 100, 1000, 0}, 4);
  EXPECT_EQ(Message(small_table, {0, 9, 1, {}}), "");  // lives long
  for (int step = 1; step < 4; ++step) EXPECT_EQ(Message(small_table, {step, step, 1, {}}), "");
  EXPECT_TRUE(Has(Message(small_table, {9, 9, 1, {}}), "up to 4 loads between two of them"));
  EXPECT_EQ(Message(small_table, {10, 10, 1, {}}), "");
}

TEST(LoadCheck, NumbersMayBeLeftOutAndNeverComeAgain) {
  LoadCheck check({1, 9, 100, 1000, 0}, 4);
  EXPECT_EQ(Message(check, {0, 0, 1, {}, /*number=*/1 << 20}), "");
  EXPECT_TRUE(Has(Message(check, {1, 1, 1, {}, 7}), "comes after one of a higher number"));
  EXPECT_EQ(Message(check, {1, 9, 1, {}}), "");  // 1 beyond
  EXPECT_TRUE(Has(Message(check, {2, 2, 1, {}, (1 << 20) + 5}), "up to 4 loads between"));
}

// Its sum, against brute force.
TEST(LoadCheck, RefusesExactlyWhatDoesNotFit) {
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    LoadCheck check({1, 1000, 100, 250, 0}, 4096);
    std::vector<Load> accepted;
    std::int64_t first = 0;
    for (int i = 0; i < 30; ++i) {
      first += random() % 3;
      const Load load{first, first + static_cast<std::int64_t>(random() % 6),
                      static_cast<std::int64_t>(random() % 101), {}};
      std::int64_t bytes = load.bytes;
      for (const Load& live : accepted) bytes += live.last >= load.first ? live.bytes : 0;
      ASSERT_EQ(Message(check, load).empty(), bytes <= 250);
      if (bytes <= 250) accepted.push_back(load);
      refused += bytes > 250;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace load_check_test
}  // namespace io
}  // namespace horovod_opt
