// The invariants of order/step_queue.h, each of them, and both sides at once.
#include "horovod_opt/csrc/io/order/step_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "horovod_opt_io_abi.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace io {
namespace step_queue_test {

using namespace std::chrono_literals;
using Event = StepQueue::Event;
using Next = StepQueue::Next;
using AskResult = StepQueue::AskResult;

// Steps of so many samples each, of one part; a step's weight is its number in the node cache, and
// a record's load too.
StepGroup Group(std::int64_t cache_step, const std::vector<std::int64_t>& sizes) {
  StepGroup group;
  group.cache_step = cache_step;
  std::int64_t samples = 0;
  for (const std::int64_t size : sizes) {
    const std::int64_t step = cache_step + static_cast<std::int64_t>(group.ends.size());
    samples += size;
    group.ends.push_back(samples);
    group.weights.push_back(static_cast<float>(step));
    group.loads.resize(static_cast<std::size_t>(samples), step);
  }
  const auto records = static_cast<std::size_t>(samples);
  group.places.resize(records);
  group.sizes.resize(records, 1);
  group.offsets.resize(records);
  group.files.resize(records);
  group.infos.resize(sizes.size() * StepGroup::kInfos);
  return group;
}

// All records are good, at once.
int FillAll(const QueuedStep& step, const std::int64_t*, Status* statuses, std::int64_t& begin,
            std::chrono::nanoseconds) {
  for (; begin < step.samples; ++begin) statuses[begin] = kGood;
  return HIO_OK;
}

// The number in the node cache of the step that comes next; -1: there is none now.
std::int64_t LookNow(StepQueue& queue) {
  QueuedStep step{};
  return queue.Look(0ns, step) == Next::kStep ? step.cache_step() : -1;
}

// (1)
TEST(StepQueueTest, StepsComeInTheirOrderAndStayUntilTheyAreHandedOut) {
  StepQueue queue(FillAll);
  EXPECT_EQ(LookNow(queue), -1);
  queue.Add(Group(7, {2, 0}));
  queue.Add(Group(20, {3}));
  QueuedStep step{};
  ASSERT_EQ(queue.Look(0ns, step), Next::kStep);
  EXPECT_EQ(step.samples, 2);
  EXPECT_EQ(step.first, 0);
  std::int64_t begin = 0;
  EXPECT_EQ(queue.Take(nullptr, begin, 0ns), HIO_OK);
  EXPECT_EQ(begin, 2);
  EXPECT_EQ(LookNow(queue), 7);
  queue.HandOut();
  ASSERT_EQ(queue.Look(0ns, step), Next::kStep);
  EXPECT_EQ(step.cache_step(), 8);
  EXPECT_EQ(step.samples, 0);
  EXPECT_EQ(step.first, 2);
  queue.HandOut();
  ASSERT_EQ(queue.Look(0ns, step), Next::kStep);
  EXPECT_EQ(step.cache_step(), 20);
  EXPECT_EQ(step.group->loads[static_cast<std::size_t>(step.first)], 20);
  queue.HandOut();
  EXPECT_EQ(LookNow(queue), -1);
}

// (2)
TEST(StepQueueTest, TheEndComesAfterAllSteps) {
  for (const bool has_failed : {false, true}) {
    StepQueue queue(FillAll);
    queue.Add(Group(0, {1}));
    queue.Finish(has_failed);
    QueuedStep step{};
    EXPECT_EQ(queue.Look(0ns, step), Next::kStep);
    queue.HandOut();
    EXPECT_EQ(queue.Look(0ns, step), has_failed ? Next::kFailed : Next::kOver);
  }
}

// (3)
TEST(StepQueueTest, ThereIsRoomForFewGroups) {
  StepQueue queue(FillAll);
  std::atomic<int> rooms{0};
  std::thread feeder([&] {
    for (std::int64_t step = 0; queue.Wait() == Event::kRoom; step += 2) {
      queue.Add(Group(step, {1, 1}));
      ++rooms;
    }
  });
  const auto settle = [&](int expected) {
    EXPECT_TRUE(Await([&] { return rooms >= expected; }));
    std::this_thread::sleep_for(20ms);  // time for more all the same
    EXPECT_EQ(rooms, expected);
  };
  settle(StepQueue::kGroups);
  ASSERT_EQ(LookNow(queue), 0);
  queue.HandOut();
  settle(StepQueue::kGroups);  // the other step of the group is still there
  ASSERT_EQ(LookNow(queue), 1);
  queue.HandOut();
  settle(StepQueue::kGroups + 1);
  queue.Stop();
  feeder.join();
}

// (4)
TEST(StepQueueTest, AnAnswerReachesItsQuestionOnly) {
  StepQueue queue(FillAll);
  StepAnswer answer;
  ASSERT_EQ(queue.Ask(HIO_CLOSED, "", 0ns, answer), AskResult::kTimeout);
  const StepQuestion first = queue.question();
  LookNow(queue);  // gives up
  queue.Answer(first.number, {"the first one's", false, {}, 0, 0});
  ASSERT_EQ(queue.Ask(HIO_OVER, "", 0ns, answer), AskResult::kTimeout);
  queue.Answer(first.number, {"the first one's", false, {}, 0, 0});
  ASSERT_EQ(queue.Ask(HIO_OVER, "", 0ns, answer), AskResult::kTimeout);
  const StepQuestion second = queue.question();
  EXPECT_EQ(second.code, HIO_OVER);
  queue.Answer(second.number, {"the second one's", true, {}, 0, 0});
  ASSERT_EQ(queue.Ask(HIO_OVER, "", 0ns, answer), AskResult::kAnswered);
  EXPECT_EQ(answer.error, "the second one's");
  EXPECT_TRUE(answer.is_input_error);
  // It is used up.
  EXPECT_EQ(queue.Ask(HIO_OVER, "", 0ns, answer), AskResult::kTimeout);
}

// (5)
TEST(StepQueueTest, AQuestionComesBeforeRoom) {
  StepQueue queue(FillAll);
  StepAnswer answer;
  EXPECT_EQ(queue.Wait(), Event::kRoom);
  ASSERT_EQ(queue.Ask(HIO_FAILED, "what it was", 0ns, answer), AskResult::kTimeout);
  EXPECT_EQ(queue.Wait(), Event::kQuestion);
  const StepQuestion question = queue.question();
  EXPECT_EQ(question.text, "what it was");
  queue.Answer(question.number, {});
  EXPECT_EQ(queue.Wait(), Event::kRoom);
}

TEST(StepQueueTest, AQuestionAboutBadRecordsSaysWhichAndOfWhichStep) {
  StepQueue queue([](const QueuedStep& step, const std::int64_t*, Status* statuses,
                     std::int64_t& begin, std::chrono::nanoseconds) {
    for (; begin < step.samples; ++begin) statuses[begin] = begin == 1 ? kChecksum : kGood;
    return HIO_OK;
  });
  queue.Add(Group(30, {1, 3}));
  ASSERT_EQ(LookNow(queue), 30);
  queue.HandOut();
  ASSERT_EQ(LookNow(queue), 31);
  std::int64_t begin = 0;
  ASSERT_EQ(queue.Take(nullptr, begin, 0ns), HIO_OK);
  StepAnswer answer;
  ASSERT_EQ(queue.Ask(HIO_OK, "", 0ns, answer), AskResult::kTimeout);
  const StepQuestion question = queue.question();
  EXPECT_EQ(question.step, 1);
  EXPECT_EQ(question.statuses, (std::vector<Status>{kGood, kChecksum, kGood}));
  queue.Answer(question.number, {"", false, {1, 0, 1}, 2, 0.5f});
  ASSERT_EQ(queue.Ask(HIO_OK, "", 0ns, answer), AskResult::kAnswered);
  EXPECT_EQ(answer.is_good, (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_EQ(answer.size, 2);
}

// (6)
TEST(StepQueueTest, WhoDetachesWaitsForWhoIsTaking) {
  std::atomic<bool> is_in{false}, may_go{false};
  std::atomic<int> calls{0};
  StepQueue queue([&](const QueuedStep&, const std::int64_t*, Status*, std::int64_t&,
                      std::chrono::nanoseconds) {
    ++calls;
    is_in = true;
    while (!may_go) std::this_thread::sleep_for(1ms);
    is_in = false;
    return HIO_TIMEOUT;
  });
  queue.Add(Group(0, {1}));
  ASSERT_EQ(LookNow(queue), 0);
  std::int64_t begin = 0;
  std::thread taker([&] { EXPECT_EQ(queue.Take(nullptr, begin, 0ns), HIO_TIMEOUT); });
  while (!is_in) std::this_thread::sleep_for(1ms);
  std::thread later([&] {
    std::this_thread::sleep_for(30ms);
    may_go = true;
  });
  queue.Detach();
  EXPECT_FALSE(is_in);
  std::int64_t again = 0;
  EXPECT_EQ(queue.Take(nullptr, again, 0ns), HIO_CLOSED);
  EXPECT_EQ(calls, 1);
  taker.join();
  later.join();
}

// (6)
TEST(StepQueueTest, AnExceptionEndsTheTaking) {
  StepQueue queue([](const QueuedStep&, const std::int64_t*, Status*, std::int64_t&,
                     std::chrono::nanoseconds) -> int { throw std::runtime_error("no"); });
  queue.Add(Group(0, {1}));
  ASSERT_EQ(LookNow(queue), 0);
  std::int64_t begin = 0;
  EXPECT_THROW(queue.Take(nullptr, begin, 0ns), std::runtime_error);
  queue.Detach();  // returns
}

// (7)
TEST(StepQueueTest, StopWakesWhoeverWaits) {
  StepQueue empty(FillAll), full(FillAll), questioned(FillAll);
  for (std::size_t i = 0; i < StepQueue::kGroups; ++i) {
    full.Add(Group(static_cast<std::int64_t>(i), {1}));
  }
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    QueuedStep step{};
    EXPECT_EQ(empty.Look(1h, step), Next::kStopped);
  });
  threads.emplace_back([&] { EXPECT_EQ(full.Wait(), Event::kStop); });
  threads.emplace_back([&] {
    StepAnswer answer;
    EXPECT_EQ(questioned.Ask(HIO_CLOSED, "", 1h, answer), AskResult::kStopped);
  });
  std::this_thread::sleep_for(20ms);
  for (StepQueue* const queue : {&empty, &full, &questioned}) queue->Stop();
  for (std::thread& thread : threads) thread.join();
  std::int64_t begin = 0;
  EXPECT_EQ(full.Take(nullptr, begin, 1h), HIO_CLOSED);
}

// (8)
TEST(StepQueueTest, CountsWhatWasHandedOut) {
  StepQueue queue(FillAll);
  queue.Add(Group(5, {1, 1}));
  ASSERT_EQ(LookNow(queue), 5);
  std::int64_t begin = 0;
  ASSERT_EQ(queue.Take(nullptr, begin, 0ns), HIO_OK);
  EXPECT_EQ(queue.handed_out(), 0);
  queue.HandOut();
  EXPECT_EQ(queue.handed_out(), 1);
}

TEST(StepQueueTest, SumsHowLongStepsWereWanted) {
  StepQueue queue(FillAll);
  queue.Add(Group(0, {1, 1}));
  queue.HandOut(1500us);
  queue.HandOut(250us);
  EXPECT_EQ(queue.waited(), 1750us);
}

TEST(StepQueueTest, AGroupWhoseArraysDoNotFitIsRefused) {
  StepQueue queue(FillAll);
  EXPECT_THROW(queue.Add(Group(0, {})), std::invalid_argument);
  StepGroup labels = Group(0, {2});
  labels.labels = {1};
  EXPECT_THROW(queue.Add(labels), std::invalid_argument);
  StepGroup ends = Group(0, {2, 2});
  ends.ends = {3, 2};
  EXPECT_THROW(queue.Add(ends), std::invalid_argument);
  EXPECT_EQ(LookNow(queue), -1);
}

TEST(QueueNumbersTest, ANumberIsGoodForOneTakerAndKeepsNothing) {
  QueueNumbers numbers;
  auto queue = std::make_shared<StepQueue>(FillAll);
  const std::int64_t first = numbers.Add(queue), second = numbers.Add(queue);
  EXPECT_NE(first, second);
  EXPECT_EQ(numbers.Claim(first), queue);
  EXPECT_EQ(numbers.Claim(first), nullptr);
  numbers.Remove(second);
  EXPECT_EQ(numbers.Claim(second), nullptr);
  const std::int64_t third = numbers.Add(queue);
  queue.reset();
  EXPECT_EQ(numbers.Claim(third), nullptr);
}

// All of it, for ThreadSanitizer: a feeder, a taker that gives up now and then, and somebody who
// detaches or stops in the middle.
TEST(StepQueueTest, TwoSidesAndAnEnd) {
  for (unsigned round = 0; round < 40; ++round) {
    std::atomic<bool> is_ring_there{true};
    auto queue = std::make_shared<StepQueue>(
        [&](const QueuedStep& step, const std::int64_t*, Status* statuses, std::int64_t& begin,
            std::chrono::nanoseconds) {
          EXPECT_TRUE(is_ring_there);
          if (begin < step.samples) statuses[begin] = step.cache_step() % 7 == 3 ? kChanged : kGood;
          if (begin < step.samples) ++begin;
          return begin < step.samples ? HIO_TIMEOUT : HIO_OK;
        });
    constexpr std::int64_t kSteps = 60;
    std::thread feeder([queue] {
      std::int64_t added = 0;
      for (Event event; (event = queue->Wait()) != Event::kStop;) {
        if (event == Event::kQuestion) {
          const StepQuestion question = queue->question();
          queue->Answer(question.number,
                        {question.code == HIO_OK ? "" : "it is over", false, {}, question.step, 0});
        } else if (added == kSteps) {
          queue->Finish(false);
        } else {
          queue->Add(Group(added, {1, 2, 0}));
          added += 3;
        }
      }
    });
    std::int64_t count = 0;
    bool is_detached = false;
    std::thread taker([&, queue] {
      std::mt19937 random(round);
      for (;;) {
        QueuedStep step{};
        const Next next = queue->Look(1ms, step);
        if (next == Next::kTimeout) continue;
        if (next != Next::kStep) return;
        ASSERT_EQ(step.cache_step(), count);
        std::int64_t begin = 0;
        int code;
        while ((code = queue->Take(nullptr, begin, 1ms)) == HIO_TIMEOUT) continue;
        if (random() % 8 == 0) continue;  // gives up, and looks again
        if (code != HIO_OK || step.cache_step() % 7 == 3) {
          StepAnswer answer;
          AskResult result;
          while ((result = queue->Ask(code, "", 1ms, answer)) == AskResult::kTimeout) continue;
          if (result == AskResult::kStopped) return;
          ASSERT_EQ(answer.size, count);
          if (code != HIO_OK) {
            ASSERT_EQ(answer.error, "it is over");
            is_detached = true;
            return;
          }
        }
        queue->HandOut();
        ++count;
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(round * 50));
    if (round % 3 == 1) {
      queue->Detach();
      is_ring_there = false;
    }
    if (round % 3 == 2) queue->Stop();
    taker.join();
    EXPECT_EQ(queue->handed_out(), count);
    if (round % 3 == 0) EXPECT_EQ(count, kSteps);
    if (round % 3 == 1) EXPECT_TRUE(is_detached || count == kSteps);
    queue->Stop();
    feeder.join();
  }
}

}  // namespace step_queue_test
}  // namespace io
}  // namespace horovod_opt
