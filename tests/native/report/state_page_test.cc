#include "horovod_opt/csrc/core/report/state_page.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace horovod_opt {
namespace state_page_test {

using namespace std::chrono_literals;
using Clock = StatePage::Clock;

// Some other thread has it.
template <class Mutex>
class Held {
 public:
  explicit Held(Mutex& mutex)
      : thread_([this, &mutex] {
          std::lock_guard<Mutex> lock(mutex);
          held_.set_value();
          end_.get_future().wait();
        }) {
    held_.get_future().wait();
  }
  ~Held() {
    end_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> held_, end_;
  std::thread thread_;
};

TEST(StatePage, LinesForPeopleAndFactsForPrograms) {
  const auto now = Clock::now();
  StatePage page(now);
  page.Line(0, "plan p");
  page.Line(1, "since " + page.Age(now - 2345ms));
  page.Fact({"waits", page.Milliseconds(now - 2345ms), "a"});
  EXPECT_EQ(page.Text(), "plan p\n  since 2.3 s\n");
  EXPECT_EQ(page.Message(), "line\t0\tplan p\nline\t1\tsince 2.3 s\nfact\twaits\t2345\ta\nend\n");
}

TEST(StatePage, NoNameMakesALineOrAField) {
  StatePage page;
  page.Line(0, "a\nend");
  page.Fact({"b\tc", "\x01"});
  EXPECT_EQ(page.Message(), "line\t0\ta end\nfact\tb c\t \nend\n");
}

TEST(StatePage, WhatBeginsWhileThePageIsMadeHasNoAge) {
  const auto now = Clock::now();
  const StatePage page(now);
  EXPECT_EQ(page.Age(now + 5s), "0.0 s");
  EXPECT_EQ(page.Milliseconds(now + 5s), "0");
}

TEST(StatePage, SomeNamesAndHowManyMore) {
  EXPECT_EQ(StatePage::Names({}), "");
  EXPECT_EQ(StatePage::Names({"a", "b"}), "'a', 'b'");
  EXPECT_EQ(StatePage::Names(std::vector<std::string>(8, "a")),
            "'a', 'a', 'a', 'a', 'a', 'a' and 2 more");
}

TEST(StatePage, LooksUnderALockThatIsFree) {
  StatePage page;
  std::mutex mutex;
  bool looked = false;
  page.Under(std::unique_lock<std::mutex>(mutex, std::defer_lock), "x", [&] {
    looked = true;
    EXPECT_FALSE(std::unique_lock<std::mutex>(mutex, std::try_to_lock).owns_lock());
  });
  EXPECT_TRUE(looked);
  EXPECT_EQ(page.Text(), "");
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(StatePage, ALockThatIsHeldIsTheFinding) {
  std::mutex mutex;
  std::shared_mutex shared;
  const Held<std::mutex> held(mutex);
  const Held<std::shared_mutex> held_shared(shared);
  StatePage page;
  const auto look = [] { FAIL() << "without the lock"; };
  page.Under(std::unique_lock<std::mutex>(mutex, std::defer_lock), "plan p", look);
  page.Under(std::shared_lock<std::shared_mutex>(shared, std::defer_lock), "the table", look);
  EXPECT_EQ(page.Text(),
            "the lock of plan p is held for longer than 200 ms by another thread: nothing is told "
            "of it\nthe lock of the table is held for longer than 200 ms by another thread: "
            "nothing is told of it\n");
  EXPECT_NE(page.Message().find("fact\tlocked\tplan p\n"), std::string::npos);
}

// Each would take 200 ms: it hangs, or the page gives up waiting after two seconds.
TEST(StatePage, ManyLocksAreNotWaitedForOneByOne) {
  std::mutex mutex;
  const Held<std::mutex> held(mutex);
  StatePage page;
  const auto begin = Clock::now();
  for (int i = 0; i < 2000; ++i) {
    page.Under(std::unique_lock<std::mutex>(mutex, std::defer_lock), "x", [] { FAIL(); });
  }
  EXPECT_LT(Clock::now() - begin, 200s);  // of 400
}

}  // namespace state_page_test
}  // namespace horovod_opt
