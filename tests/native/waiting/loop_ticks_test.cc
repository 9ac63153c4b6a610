#include "horovod_opt/csrc/core/waiting/loop_ticks.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {
namespace loop_ticks_test {

// As early as it can: before the thread that waits for it sleeps. No other would come.
TEST(LoopTicksTest, ATickDuringTheWakeUpIsNotLost) {
  LoopTicks ticks;
  ticks.AwaitNext([&] { ticks.Tick(); });
}

TEST(LoopTicksTest, ATickBeforeTheWakeUpIsNotEnough) {
  LoopTicks ticks;
  ticks.Tick();
  bool woken = false;
  ticks.AwaitNext([&] {
    woken = true;
    ticks.Tick();
  });
  EXPECT_TRUE(woken);
}

// It sleeps until it is woken, and then touches what it is told to.
class Loop {
 public:
  ~Loop() {
    done_ = true;
    Wake();
    thread_.join();
  }

  void Wake() const {
    const std::uint64_t once = 1;
    ASSERT_EQ(write(event_.number(), &once, sizeof(once)), static_cast<ssize_t>(sizeof(once)));
  }

  LoopTicks ticks;
  std::atomic<int*> touched{nullptr};

 private:
  void Run() {
    while (!done_) {
      ticks.Tick();
      std::uint64_t times;
      ASSERT_EQ(read(event_.number(), &times, sizeof(times)), static_cast<ssize_t>(sizeof(times)));
      if (int* const value = touched) ++*value;
    }
  }

  const Descriptor event_{eventfd(0, EFD_CLOEXEC)};
  std::atomic<bool> done_{false};
  std::thread thread_{&Loop::Run, this};
};

// The sanitizers see it if it does.
TEST(LoopTicksTest, AfterTheNextTickALoopDoesNotTouchWhatWasTakenAway) {
  Loop loop;
  for (int i = 0; i < 1000; ++i) {
    auto value = std::make_unique<int>(0);
    loop.touched = value.get();
    loop.Wake();
    loop.touched = nullptr;
    loop.ticks.AwaitNext([&] { loop.Wake(); });
    EXPECT_LE(*value, 2);
  }
}

// Each wakes the loop and waits for one tick; one may do for several.
TEST(LoopTicksTest, SeveralThreadsWait) {
  Loop loop;
  const auto wait = [&] {
    for (int i = 0; i < 500; ++i) loop.ticks.AwaitNext([&] { loop.Wake(); });
  };
  std::thread first(wait), second(wait);
  first.join();
  second.join();
}

}  // namespace loop_ticks_test
}  // namespace horovod_opt
