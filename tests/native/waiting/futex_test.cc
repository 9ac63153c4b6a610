#include "horovod_opt/csrc/core/waiting/futex.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <system_error>

#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"
#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {
namespace futex_test {

using namespace std::chrono_literals;

TEST(Futex, DoesNotSleepOnAnotherValue) {
  std::atomic<std::uint32_t> word{1};
  EXPECT_FALSE(futex::Wait(word, 0, futex::kForever));
}

TEST(Futex, EndsAfterTheTimeout) {
  std::atomic<std::uint32_t> word{0};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(futex::Wait(word, 0, 1100ms));  // seconds and nanoseconds
  EXPECT_GE(std::chrono::steady_clock::now() - start, 1100ms);
}

TEST(Futex, WakesAllWhoSleep) {
  std::atomic<std::uint32_t> word{0};
  std::atomic<int> slept{0};
  const auto wait = [&] { slept += futex::Wait(word, 0, futex::kForever) ? 1 : 0; };
  Sleeper first(wait);
  Sleeper second(wait);
  first.AwaitSleep();
  second.AwaitSleep();
  word = 1;
  futex::Wake(word);
  first.Join();
  second.Join();
  EXPECT_EQ(slept, 2);
}

TEST(Futex, WakesOnlyThoseWhoAreMeant) {
  std::atomic<std::uint32_t> word{0};
  std::atomic<int> woken{0};
  const auto wait = [&](futex::Sleepers who) {
    EXPECT_TRUE(futex::Wait(word, 0, futex::kForever, who));
    ++woken;
  };
  Sleeper first([&] { wait(1); });
  Sleeper second([&] { wait(2); });
  first.AwaitSleep();
  second.AwaitSleep();
  futex::Wake(word, ~futex::Sleepers{1});
  second.Join();
  EXPECT_EQ(woken, 1);
  futex::Wake(word);
  first.Join();
}

// As two processes do. A private futex would sleep forever.
TEST(Futex, WakesThroughAnotherAddressOfTheWord) {
  const Descriptor file = NewSegmentFile(sizeof(std::uint32_t));
  const SharedSegment here = SharedSegment::Map(file, sizeof(std::uint32_t));
  const SharedSegment there = SharedSegment::Map(file, sizeof(std::uint32_t));
  ASSERT_NE(here.data(), there.data());
  auto& word_here = *static_cast<std::atomic<std::uint32_t>*>(here.data());
  auto& word_there = *static_cast<std::atomic<std::uint32_t>*>(there.data());
  Sleeper sleeper([&] { EXPECT_TRUE(futex::Wait(word_here, 0, futex::kForever)); });
  sleeper.AwaitSleep();
  word_there = 1;
  futex::Wake(word_there);
  sleeper.Join();
}

void Ignore(int) {}

TEST(Futex, ASignalEndsTheSleepLikeAWakeUp) {
  struct sigaction action = {};
  action.sa_handler = Ignore;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  std::atomic<std::uint32_t> word{0};
  std::atomic<pthread_t> thread{};
  Sleeper sleeper([&] {
    thread = pthread_self();
    EXPECT_TRUE(futex::Wait(word, 0, futex::kForever));
  });
  sleeper.AwaitSleep();
  pthread_kill(thread, SIGUSR1);
  sleeper.Join();
}

TEST(Futex, RefusesATimeoutThatIsNone) {
  std::atomic<std::uint32_t> word{0};
  EXPECT_THROW(futex::Wait(word, 0, -1ns), std::system_error);
}

}  // namespace futex_test
}  // namespace horovod_opt
