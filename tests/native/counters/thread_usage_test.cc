// CPU time and context switches of threads (thread_usage.h).

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <system_error>
#include <thread>

#include "horovod_opt/csrc/core/counters/thread_usage.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace thread_usage_test {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds kTick = 10ms;  // at least one clock tick everywhere
constexpr int kSleeps = 40;

pid_t Tid() { return static_cast<pid_t>(syscall(SYS_gettid)); }

nanoseconds OwnCpuTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

// So long, and until it is that much more user time than system time: the kernel looks at ticks
// which of them it is.
void BurnUser(nanoseconds length) {
  volatile unsigned sink = 0;
  const auto burnt = [] {
    const ThreadUsage own = ReadOwnThreadUsage();
    return own.user - own.system;
  };
  for (const auto end = OwnCpuTime() + length; OwnCpuTime() < end || burnt() < length;) {
    for (int i = 0; i < 100000; ++i) sink = sink + 1;
  }
}

void BurnSystem(nanoseconds length) {
  const int zero = open("/dev/zero", O_RDONLY);
  static char buffer[1 << 20];
  const auto burnt = [] {
    const ThreadUsage own = ReadOwnThreadUsage();
    return own.system - own.user;
  };
  while (burnt() < length) {
    // Not read(), in which ThreadSanitizer would spend user time on the buffer.
    if (syscall(SYS_read, zero, buffer, sizeof(buffer)) <= 0) break;
  }
  close(zero);
}

// A thread that has done `work` and then stays, so that others can look at it.
class Worker {
 public:
  template <class Work>
  explicit Worker(Work work)
      : thread_([this, work] {
          tid_ = Tid();
          work();
          own_ = ReadOwnThreadUsage();
          worked_.set_value();
          leave_.get_future().wait();
          left_ = ReadOwnThreadUsage();
        }) {
    worked_.get_future().wait();
  }
  ~Worker() { Leave(); }
  void Leave() {
    if (!thread_.joinable()) return;
    leave_.set_value();
    thread_.join();
  }
  pid_t tid() const { return tid_; }
  // By itself, when it had worked, and when it left.
  const ThreadUsage& own() const { return own_; }
  const ThreadUsage& left() const { return left_; }

 private:
  pid_t tid_ = 0;
  ThreadUsage own_, left_;
  std::promise<void> worked_;
  std::promise<void> leave_;
  std::thread thread_;
};

// What others read of the worker lies between what it reads itself, before and after: however much
// it does in between on a busy machine.
ThreadUsage ExpectRead(Worker& worker) {
  const ThreadUsage usage = ReadThreadUsage(worker.tid());
  worker.Leave();
  const ThreadUsage &own = worker.own(), &left = worker.left();
  for (const auto time : {&ThreadUsage::user, &ThreadUsage::system}) {
    EXPECT_GE(usage.*time, own.*time - kTick);
    EXPECT_LE(usage.*time, left.*time + kTick);
  }
  EXPECT_GE(usage.voluntary_switches, own.voluntary_switches);
  EXPECT_LE(usage.voluntary_switches, left.voluntary_switches);
  EXPECT_GE(usage.involuntary_switches, own.involuntary_switches);
  EXPECT_LE(usage.involuntary_switches, left.involuntary_switches);
  return usage;
}

TEST(ThreadUsage, BurningThread) {
  Worker worker([] { BurnUser(200ms); });
  const ThreadUsage usage = ExpectRead(worker);
  EXPECT_GE(usage.user + usage.system, 200ms - 2 * kTick);
  EXPECT_GT(usage.user, usage.system);
  EXPECT_GE(worker.own().user + worker.own().system, 199ms);
}

TEST(ThreadUsage, SystemTimeIsNotUserTime) {
  Worker worker([] { BurnSystem(200ms); });
  const ThreadUsage usage = ExpectRead(worker);
  EXPECT_GT(usage.system, usage.user);
  EXPECT_GT(worker.own().system, worker.own().user);
}

TEST(ThreadUsage, SleepingThread) {
  Worker worker([] { GiveUpCore(kSleeps); });
  const ThreadUsage usage = ExpectRead(worker);
  EXPECT_GE(worker.own().voluntary_switches, kSleeps);
  EXPECT_GE(usage.voluntary_switches, kSleeps);
}

TEST(ThreadUsage, NameOfTheThreadDoesNotMatter) {
  Worker worker([] {
    prctl(PR_SET_NAME, "a) R 1 (2 3");
    BurnUser(100ms);
  });
  EXPECT_GE(ExpectRead(worker).user, 100ms - kTick);
}

TEST(ThreadUsage, ThreadThatHasEnded) {
  Worker worker([] {});
  const pid_t tid = worker.tid();
  worker.Leave();
  // join() returns a moment before the kernel removes the thread from /proc.
  EXPECT_TRUE(Await([&] {
    try {
      ReadThreadUsage(tid);
      return false;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), std::errc::no_such_process);
      return true;
    }
  }));
}

TEST(ProcessUsage, CountsThreadsThatHaveEnded) {
  const ThreadUsage before = ReadProcessUsage();
  {
    Worker burning([] { BurnUser(100ms); });
    Worker sleeping([] { GiveUpCore(kSleeps); });
  }
  const ThreadUsage after = ReadProcessUsage();
  EXPECT_GE(after.user + after.system - before.user - before.system, 99ms);
  EXPECT_GE(after.voluntary_switches - before.voluntary_switches, kSleeps);
}

}  // namespace thread_usage_test
}  // namespace horovod_opt
