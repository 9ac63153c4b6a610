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

void BurnUser(nanoseconds length) {
  volatile unsigned sink = 0;
  for (const auto end = OwnCpuTime() + length; OwnCpuTime() < end;) {
    for (int i = 0; i < 100000; ++i) sink = sink + 1;
  }
}

void BurnSystem(nanoseconds length) {
  const int zero = open("/dev/zero", O_RDONLY);
  static char buffer[1 << 20];
  for (const auto end = OwnCpuTime() + length; OwnCpuTime() < end;) {
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
  const ThreadUsage& own() const { return own_; }

 private:
  pid_t tid_ = 0;
  ThreadUsage own_;
  std::promise<void> worked_;
  std::promise<void> leave_;
  std::thread thread_;
};

void ExpectSameTimes(const ThreadUsage& from_proc, const ThreadUsage& own) {
  const auto total = [](const ThreadUsage& usage) { return usage.user + usage.system; };
  EXPECT_LE(total(from_proc) - total(own), 2 * kTick);
  EXPECT_GE(total(from_proc) - total(own), -2 * kTick);
}

TEST(ThreadUsage, BurningThread) {
  Worker worker([] { BurnUser(200ms); });
  const ThreadUsage usage = ReadThreadUsage(worker.tid());
  EXPECT_GE(usage.user + usage.system, 200ms - 2 * kTick);
  EXPECT_LT(usage.user + usage.system, 400ms);
  EXPECT_GT(usage.user, usage.system);
  ExpectSameTimes(usage, worker.own());
  EXPECT_GE(worker.own().user + worker.own().system, 199ms);
}

TEST(ThreadUsage, SystemTimeIsNotUserTime) {
  Worker worker([] { BurnSystem(200ms); });
  const ThreadUsage usage = ReadThreadUsage(worker.tid());
  EXPECT_GT(usage.system, usage.user);
  EXPECT_GT(worker.own().system, worker.own().user);
  ExpectSameTimes(usage, worker.own());
}

TEST(ThreadUsage, SleepingThread) {
  Worker worker([] {
    for (int i = 0; i < kSleeps; ++i) std::this_thread::sleep_for(1ms);
  });
  const ThreadUsage usage = ReadThreadUsage(worker.tid());
  EXPECT_LT(usage.user + usage.system, 30ms);
  EXPECT_GE(worker.own().voluntary_switches, kSleeps);
  EXPECT_GE(usage.voluntary_switches, worker.own().voluntary_switches);
  EXPECT_LT(usage.voluntary_switches, worker.own().voluntary_switches + kSleeps);
  EXPECT_GE(usage.involuntary_switches, worker.own().involuntary_switches);
  EXPECT_LT(usage.involuntary_switches, kSleeps);
}

TEST(ThreadUsage, NameOfTheThreadDoesNotMatter) {
  Worker worker([] {
    prctl(PR_SET_NAME, "a) R 1 (2 3");
    BurnUser(100ms);
  });
  ExpectSameTimes(ReadThreadUsage(worker.tid()), worker.own());
}

TEST(ThreadUsage, ThreadThatHasEnded) {
  Worker worker([] {});
  const pid_t tid = worker.tid();
  worker.Leave();
  try {
    // join() returns a moment before the kernel removes the thread from /proc.
    for (int i = 0; i < 1000; ++i) {
      ReadThreadUsage(tid);
      std::this_thread::sleep_for(1ms);
    }
    FAIL() << "no error";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::no_such_process);
  }
}

TEST(ProcessUsage, CountsThreadsThatHaveEnded) {
  const ThreadUsage before = ReadProcessUsage();
  {
    Worker burning([] { BurnUser(100ms); });
    Worker sleeping([] {
      for (int i = 0; i < kSleeps; ++i) std::this_thread::sleep_for(1ms);
    });
  }
  const ThreadUsage after = ReadProcessUsage();
  EXPECT_GE(after.user + after.system - before.user - before.system, 99ms);
  EXPECT_GE(after.voluntary_switches - before.voluntary_switches, kSleeps);
}

}  // namespace thread_usage_test
}  // namespace horovod_opt
