#include "horovod_opt/csrc/core/agreement/stall_report.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace horovod_opt {
namespace stall_report_test {

using namespace std::chrono_literals;
using Clock = PlanTable::Clock;
using Late = PlanTable::LateBucket;

constexpr std::chrono::seconds kLimit(60);
const Clock::time_point kNow = Clock::now();

Late LateOf(std::vector<std::string> here, std::vector<std::string> missing,
            std::chrono::seconds age = 0s, std::uint64_t iteration = 7) {
  return {"trained", iteration, std::move(here), std::move(missing), kNow - age};
}

// What users are told of what these ranks have, in their order.
std::string Describe(const std::vector<std::vector<Late>>& ranks) {
  TextByRank rows;
  for (const auto& late : ranks) {
    rows.emplace(static_cast<int>(rows.size()), StallRow(late, kNow));
  }
  return DescribeStall(rows, kLimit);
}

TEST(StallReport, NamesTheRanksThatMissATensor) {
  const Late lacks_b = LateOf({"a"}, {"b"});
  EXPECT_EQ(Describe({{lacks_b}, {LateOf({"a", "b"}, {}, 99s)}, {lacks_b}}),
            "\nb (plan trained, iteration 7): missing on ranks 0, 2");
  EXPECT_EQ(Describe({{lacks_b}, {}}),
            "\na (plan trained, iteration 7): missing on rank 1"
            "\nb (plan trained, iteration 7): missing on ranks 0-1");
}

TEST(StallReport, NamesABucketThatIsCompleteEverywhereSinceItsLastRank) {
  EXPECT_EQ(Describe({{LateOf({"a"}, {}, 75s)}, {LateOf({"a"}, {}, 61s)}}),
            "\na (plan trained, iteration 7): complete on all ranks, not reduced for 61 s");
  EXPECT_EQ(Describe({{LateOf({"a", "b", "c"}, {}, 60s)}, {LateOf({"a", "b", "c"}, {}, 80s)}}),
            "\na and 2 more (plan trained, iteration 7): complete on all ranks, "
            "not reduced for 60 s");
}

TEST(StallReport, ABucketThatIsCompleteSinceAMomentIsOnItsWay) {
  EXPECT_EQ(Describe({{LateOf({"a"}, {}, 59s)}, {LateOf({"a"}, {}, 300s)}}), "");
}

TEST(StallReport, TellsIterationsOfOneBucketApart) {
  EXPECT_EQ(Describe({{LateOf({"a"}, {}, 99s, 7), LateOf({"a"}, {}, 90s, 8)},
                      {LateOf({"a"}, {}, 99s, 7)}}),
            "\na (plan trained, iteration 8): missing on rank 1"
            "\na (plan trained, iteration 7): complete on all ranks, not reduced for 99 s");
}

TEST(StallReport, OfRanksThatWaitForNothingThereIsNothingToSay) {
  EXPECT_EQ(Describe({{}, {}, {}}), "");
}

}  // namespace stall_report_test
}  // namespace horovod_opt
