#include "horovod_opt/csrc/io/node_cache/node_cache.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/native/reduction/node_ranks.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace io {
namespace node_cache_test {

using namespace std::chrono_literals;

EventCount::Clock::time_point After(std::chrono::nanoseconds time) {
  return EventCount::Clock::now() + time;
}

class NodeCacheTest : public testing::Test {
 protected:
  NodeCache cache_{NodeCacheMemory::Create({3, 4, 5000, 100000, 10})};
};

TEST_F(NodeCacheTest, StepsEndInAnyOrder) {
  EXPECT_EQ(cache_.LowestStep(), 10);
  EXPECT_TRUE(cache_.Done(0, 12));
  EXPECT_TRUE(cache_.Done(0, 11));
  EXPECT_EQ(cache_.memory().rank(0).cursor, 10);
  EXPECT_TRUE(cache_.Done(0, 10));
  EXPECT_EQ(cache_.memory().rank(0).cursor, 13);
  EXPECT_TRUE(cache_.Done(0, 10));  // again
  EXPECT_EQ(cache_.memory().rank(0).cursor, 13);
  EXPECT_EQ(cache_.LowestStep(), 10);
}

TEST_F(NodeCacheTest, StepsTooFarAheadAreRefused) {
  EXPECT_FALSE(cache_.Done(1, 10 + kMarks));
  EXPECT_TRUE(cache_.Done(1, 9 + kMarks));
  for (std::int64_t step = 10; step < 9 + kMarks; ++step) EXPECT_TRUE(cache_.Done(1, step));
  EXPECT_EQ(cache_.memory().rank(1).cursor, 10 + kMarks);
}

TEST_F(NodeCacheTest, WhoLeavesHoldsUpNobody) {
  cache_.SkipTo(0, 50);
  cache_.SkipTo(0, 40);  // never back
  cache_.SkipTo(1, 60);
  EXPECT_EQ(cache_.LowestStep(), 10);
  cache_.Leave(2);
  EXPECT_TRUE(cache_.HasLeft(2));
  EXPECT_TRUE(cache_.Done(2, 11));
  EXPECT_FALSE(cache_.HasLeft(0));
  EXPECT_EQ(cache_.LowestStep(), 50);
}

TEST_F(NodeCacheTest, WorkersThatEndStepsAtOnceLoseNone) {
  constexpr int kWorkers = 4, kSteps = 2000;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back([this, worker] {
      for (int i = worker; i < kSteps; i += kWorkers) {
        while (!cache_.Done(0, 10 + i)) std::this_thread::yield();
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(cache_.memory().rank(0).cursor, 10 + kSteps);
}

TEST_F(NodeCacheTest, ALoadIsNotYetThereThereAndOver) {
  using Presence = NodeCache::Presence;
  const std::int64_t later = 5 + cache_.memory().entries();  // with the same entry
  EXPECT_EQ(cache_.Look(5), Presence::kNotYet);
  cache_.Publish(5, 2);
  EXPECT_EQ(cache_.Look(5), Presence::kThere);
  EXPECT_EQ(cache_.Look(later), Presence::kNotYet);
  cache_.Withdraw(5);
  EXPECT_EQ(cache_.Look(5), Presence::kOver);
  EXPECT_EQ(cache_.Look(later), Presence::kNotYet);
  cache_.Publish(later, 1);
  EXPECT_EQ(cache_.Look(5), Presence::kOver);
  EXPECT_EQ(cache_.Look(later), Presence::kThere);
}

TEST_F(NodeCacheTest, WhoWaitsIsWokenByItsLoad) {
  std::atomic<bool> begins{false};
  Sleeper rank([&] {
    begins = true;
    EXPECT_EQ(cache_.Await(7, 1, After(kHang)), NodeCache::Arrival::kThere);
    EXPECT_EQ(cache_.Await(39, 1, After(20ms)), NodeCache::Arrival::kTimeout);
  });
  while (!begins) std::this_thread::yield();
  rank.AwaitSleep();
  std::this_thread::sleep_for(30ms);
  cache_.Publish(6, 0);
  cache_.Publish(7, 1);
  rank.Join();
  EXPECT_GT(cache_.memory().rank(1).wait_ns, 40000000);
}

TEST_F(NodeCacheTest, TheEndWakesWhoWaits) {
  Sleeper rank(
      [this] { EXPECT_EQ(cache_.Await(7, 1, After(kHang)), NodeCache::Arrival::kEnded); });
  rank.AwaitSleep();
  cache_.EndForAll(End::kRankDied, 2);
  rank.Join();
  cache_.EndForAll(End::kClosed, 0);
  EXPECT_EQ(cache_.end(), End::kRankDied);  // the first reason
}

TEST_F(NodeCacheTest, TheFirstFailureIsTold) {
  cache_.Fail("the first one");
  cache_.Fail("another");
  EXPECT_EQ(cache_.failure(), "the first one");
  EXPECT_EQ(cache_.end(), End::kFailed);
}

TEST_F(NodeCacheTest, AFailureIsToldWhole) {
  const std::string texts[] = {std::string(1500, 'a'), std::string(1500, 'b')};
  for (int time = 0; time < 300; ++time) {
    NodeCache cache(NodeCacheMemory::Create({1, 1, 1, 1, 0}));
    std::atomic<bool> has_begun{false};
    std::string text;
    std::thread rank([&] {
      has_begun = true;
      for (int looks = 1; cache.end() == End::kNone; ++looks) {
        if (looks % 1024 == 0) std::this_thread::yield();  // the others may wait for this core
      }
      text = cache.failure();
    });
    while (!has_begun) std::this_thread::yield();
    std::thread reader([&] { cache.Fail(texts[0]); });
    cache.Fail(texts[1]);
    reader.join();
    rank.join();
    ASSERT_TRUE(text == texts[0] || text == texts[1]) << text;
  }
}

TEST_F(NodeCacheTest, AFailureThatIsTooLongIsCut) {
  cache_.Fail(std::string(2 * Failure::kBytes, 'c'));
  EXPECT_EQ(cache_.failure(), std::string(Failure::kBytes - 1, 'c'));
}

TEST_F(NodeCacheTest, AFailureAfterTheEndIsNotItsReason) {
  cache_.EndForAll(End::kRankDied, 2);
  cache_.Fail("too late");
  EXPECT_EQ(cache_.end(), End::kRankDied);
  EXPECT_EQ(cache_.failure(), "");
}

TEST_F(NodeCacheTest, TheEndOfOneProcessIsNotThatOfOthers) {
  NodeCache second(NodeCacheMemory::Attach(Descriptor(dup(cache_.memory().file().number()))));
  Sleeper waits(
      [&] { EXPECT_EQ(second.Await(7, 1, After(kHang)), NodeCache::Arrival::kEnded); });
  waits.AwaitSleep();
  second.EndHere(End::kReaderDied);
  waits.Join();
  EXPECT_EQ(second.end(), End::kReaderDied);
  EXPECT_EQ(cache_.end(), End::kNone);
  cache_.Publish(3, 2);
  EXPECT_EQ(second.Look(3), NodeCache::Presence::kThere);  // it is the same memory
}

TEST(NodeCacheMemoryTest, NothingButANodeCacheIsAttachedTo) {
  const auto attach = [](int file) { NodeCacheMemory::Attach(Descriptor(file)); };
  const Descriptor zeros = NewSegmentFile(1 << 16);
  EXPECT_THROW(attach(dup(zeros.number())), std::invalid_argument);
  const Descriptor tiny = NewSegmentFile(10);
  EXPECT_THROW(attach(dup(tiny.number())), std::invalid_argument);
  const int unsealed = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(unsealed, 1 << 16), 0);
  EXPECT_THROW(attach(unsealed), std::system_error);
  NodeCacheMemory forged = NodeCacheMemory::Create({1, 4, 5000, 100000, 0});
  forged.header().shape.buffers = 1 << 20;  // more than the memory has
  EXPECT_THROW(attach(dup(forged.file().number())), std::invalid_argument);
  forged.header().version = 99;
  EXPECT_THROW(attach(dup(forged.file().number())), std::invalid_argument);
}

TEST(NodeCacheMemoryTest, ImpossibleShapesAreRefused) {
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const Shape& shape : {Shape{0, 1, 1, 1, 0}, Shape{1, 0, 1, 1, 0}, Shape{1, 1, 0, 1, 0},
                             Shape{1, 1, 1, -1, 0}, Shape{1, 1, 1, 1, -1}, Shape{huge, 1, 1, 1, 0},
                             Shape{1, huge, 1, 1, 0}, Shape{1, 1, huge, 1, 0}}) {
    EXPECT_THROW(NodeCacheMemory::Create(shape), std::invalid_argument);
  }
}

TEST(NodeCacheMemoryTest, PunchedPagesAreGivenBack) {
  const std::int64_t page = PageBytes();
  const NodeCacheMemory memory = NodeCacheMemory::Create({1, 3, 4 * page, 100 * page, 0});
  const auto used = [&] {
    struct stat status;
    EXPECT_EQ(fstat(memory.file().number(), &status), 0);
    return status.st_blocks * 512 / page;
  };
  std::fill_n(memory.buffer(1), 4 * page, 'x');
  const auto before = used();
  memory.Punch(1, page, 4 * page);
  EXPECT_EQ(used(), before - 3);
  EXPECT_EQ(memory.buffer(1)[page - 1], 'x');
  EXPECT_EQ(memory.buffer(1)[page], '\0');
}

}  // namespace node_cache_test
}  // namespace io
}  // namespace horovod_opt
