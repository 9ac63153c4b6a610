#include "horovod_opt/csrc/core/reduction/horovod_ops_order.h"

#include <gtest/gtest.h>

#include "tests/native/reduction/leaders.h"

namespace horovod_opt {
namespace horovod_ops_order_test {

using BucketIds = std::vector<int>;

// Two groups of one rank each. A rank that waits in vain hangs.
class HorovodOpsOrderTest : public testing::Test {
 protected:
  // Before Start() what is ready there is in the leader's first AND.
  void Ready(int leader, const BucketIds& bucket_ids) {
    for (int bucket_id : bucket_ids) leaders_[leader].ready().Ready(bucket_id, 1);
  }

  void Start() {
    for (Leader& leader : leaders_) leader.Start();
  }

  // Until both leaders sleep in their logs.
  void AwaitQuiet() {
    for (const Leader& leader : leaders_) leader.AwaitSleep();
  }

  void Finish(const BucketIds& order) {
    for (Leader& leader : leaders_) leader.Close();
    JoinBoth(true, order);
  }

  void JoinBoth(bool result, const BucketIds& order) {
    for (Leader& leader : leaders_) {
      EXPECT_EQ(leader.Join(), result);
      EXPECT_EQ(leader.Order(), order);
    }
  }

  Meeting meeting_{2};
  Leader leaders_[2]{Leader(meeting_), Leader(meeting_)};
};

TEST_F(HorovodOpsOrderTest, WhatOneDoesNotHaveIsNotAppended) {
  Ready(0, {3, 5, 8});
  Ready(1, {4, 5, 9});
  Start();
  for (const Leader& leader : leaders_) EXPECT_EQ(leader.At(0), 5);
  Finish({5});
}

TEST_F(HorovodOpsOrderTest, OneAndIsAppendedByBucketId) {
  Ready(0, {4095, 64, 9, 2, 63, 0, 128});
  Ready(1, {0, 2, 9, 63, 64, 128, 4095});
  Start();
  meeting_.AwaitAgreements(1);
  Finish({0, 2, 9, 63, 64, 128, 4095});
}

// Invariant 3: 3 and 5 are ready on one; the other can have 3 only after 5.
TEST_F(HorovodOpsOrderTest, WhatIsLeftIsBroughtAgainWithoutNews) {
  Ready(0, {3, 5});
  Ready(1, {5});
  Start();
  EXPECT_EQ(leaders_[1].At(0), 5);
  Ready(1, {3});
  for (const Leader& leader : leaders_) EXPECT_EQ(leader.At(1), 3);
  Finish({5, 3});
}

// The same where both have something and agree on nothing for a while.
TEST_F(HorovodOpsOrderTest, LeadersThatAgreeOnNothingMeetAgain) {
  Ready(0, {3});
  Ready(1, {5});
  Start();
  meeting_.AwaitAgreements(3);
  Ready(0, {5});
  EXPECT_EQ(leaders_[1].At(0), 5);
  Ready(1, {3});
  EXPECT_EQ(leaders_[0].At(1), 3);
  Finish({5, 3});
}

TEST_F(HorovodOpsOrderTest, NobodyComesWithNothingToSay) {
  Ready(0, {1, 2});
  Ready(1, {1, 2});
  Start();
  for (const Leader& leader : leaders_) EXPECT_EQ(leader.At(1), 2);
  AwaitQuiet();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // time to come all the same
  EXPECT_EQ(meeting_.Agreements(), 1);
  Ready(0, {7});
  meeting_.AwaitPresent(1);
  EXPECT_EQ(meeting_.Agreements(), 1);
  Ready(1, {7});
  for (const Leader& leader : leaders_) EXPECT_EQ(leader.At(2), 7);
  Finish({1, 2, 7});
}

// Each time it has to be ready anew: what was appended is not pending any more.
TEST_F(HorovodOpsOrderTest, ABucketIdIsAppendedOnceAnIteration) {
  Start();
  for (std::uint64_t iteration = 0; iteration < 5; ++iteration) {
    for (int leader = 0; leader < 2; ++leader) Ready(leader, {6});
    for (const Leader& leader : leaders_) ASSERT_EQ(leader.At(2 * iteration), 6);
    for (int leader = 0; leader < 2; ++leader) Ready(leader, {4});
    for (const Leader& leader : leaders_) ASSERT_EQ(leader.At(2 * iteration + 1), 4);
  }
  Finish({6, 4, 6, 4, 6, 4, 6, 4, 6, 4});
}

TEST_F(HorovodOpsOrderTest, WhatIsInMemoryAlreadyIsAppendedBeforeTheEnd) {
  Ready(0, {3, 1});
  Ready(1, {1, 3, 2});
  for (Leader& leader : leaders_) leader.Close();
  Start();
  JoinBoth(true, {1, 3});
  EXPECT_EQ(meeting_.Agreements(), 1);
}

TEST_F(HorovodOpsOrderTest, EndWakesLeadersThatSleep) {
  Start();
  AwaitQuiet();
  EXPECT_EQ(meeting_.Agreements(), 0);
  Finish({});
  EXPECT_EQ(meeting_.Agreements(), 1);
}

// Invariant 4, seen by the one that has not ended.
TEST_F(HorovodOpsOrderTest, EndWhileTheOtherWaitsInTheAnd) {
  Ready(0, {3});
  Start();
  meeting_.AwaitPresent(1);
  leaders_[1].Close();
  JoinBoth(true, {});
  EXPECT_EQ(meeting_.Agreements(), 1);
}

// Invariant 4: the AND under way does not know of the end, so nobody leaves after it.
TEST_F(HorovodOpsOrderTest, EndOfALeaderThatWaitsInTheAndIsSaidInTheNextOne) {
  Ready(0, {3, 5});
  Start();
  meeting_.AwaitPresent(1);
  leaders_[0].Close();
  Ready(1, {3});
  EXPECT_EQ(leaders_[1].At(0), 3);
  meeting_.AwaitPresent(1);
  EXPECT_EQ(meeting_.Agreements(), 1);
  leaders_[1].Close();
  JoinBoth(true, {3});
  EXPECT_EQ(meeting_.Agreements(), 2);
}

TEST_F(HorovodOpsOrderTest, EndOfOneLongBeforeTheOther) {
  Ready(0, {7, 8});
  Start();
  leaders_[0].Close();
  leaders_[1].AwaitSleep();
  meeting_.AwaitPresent(1);
  EXPECT_EQ(meeting_.Agreements(), 0);
  Ready(1, {7});
  // Whether 7 came into the AND before the end or with it, both leave after the same entry.
  leaders_[1].Close();
  JoinBoth(true, {7});
  leaders_[1].Close();  // once more, and nobody is there
}

TEST_F(HorovodOpsOrderTest, AnAndThatFailsEndsAllWithFalse) {
  Ready(0, {3});
  Start();
  meeting_.AwaitPresent(1);
  meeting_.Break();
  EXPECT_FALSE(leaders_[0].Join());
  leaders_[1].AwaitSleep();
  Ready(1, {3});
  EXPECT_FALSE(leaders_[1].Join());
  for (const Leader& leader : leaders_) EXPECT_EQ(leader.order().Size(), 0u);
}

TEST_F(HorovodOpsOrderTest, AnAndThatFailsAtTheEndIsNoEnd) {
  Start();
  meeting_.Break();
  for (Leader& leader : leaders_) leader.Close();
  JoinBoth(false, {});
}

}  // namespace horovod_ops_order_test
}  // namespace horovod_opt
