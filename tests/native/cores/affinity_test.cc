#include "horovod_opt/csrc/core/cores/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

namespace horovod_opt {
namespace affinity_test {

pid_t Tid() { return static_cast<pid_t>(syscall(SYS_gettid)); }

std::vector<pid_t> AllTids() {
  std::vector<pid_t> tids;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    tids.push_back(std::stoi(entry.path().filename().string()));
  }
  return tids;
}

class Affinity : public testing::Test {
 protected:
  void SetUp() override {
    allowed_ = AllowedCpus();
    if (allowed_.size() < 2) GTEST_SKIP() << "needs 2 CPUs, this process has " << allowed_.size();
    cpus_.background = {allowed_.back()};
    cpus_.rest.assign(allowed_.begin(), allowed_.end() - 1);
  }

  void TearDown() override {
    // One that was joined may still be listed.
    for (pid_t tid : AllTids()) PinIfAlive(tid, allowed_);
  }

  void ExpectPinned(pid_t background) const {
    for (pid_t tid : AllTids()) {
      EXPECT_EQ(AllowedCpus(tid), tid == background ? cpus_.background : cpus_.rest)
          << "thread " << tid;
    }
  }

  std::vector<int> allowed_;
  RankCpus cpus_;
};

// Threads that stay until Leave().
class Crowd {
 public:
  ~Crowd() { Leave(); }

  void Add(std::function<void()> first_do) {
    const std::lock_guard<std::mutex> lock(mutex_);
    threads_.emplace_back([this, first_do] {
      first_do();
      std::unique_lock<std::mutex> own_lock(mutex_);
      ++parked_;
      changed_.notify_all();
      changed_.wait(own_lock, [this] { return leave_; });
    });
  }

  void WaitForParked(std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return parked_ >= count; });
  }

  void Leave() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      leave_ = true;
      changed_.notify_all();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
  std::size_t parked_ = 0;
  bool leave_ = false;
};

TEST_F(Affinity, PinMovesOneThreadOnly) {
  Pin(Tid(), cpus_.background);
  EXPECT_EQ(AllowedCpus(), cpus_.background);
  EXPECT_EQ(AllowedCpus(Tid()), cpus_.background);
  Pin(0, allowed_);
  EXPECT_EQ(AllowedCpus(), allowed_);
}

TEST_F(Affinity, PinNamesThreadAndCpus) {
  try {
    Pin(Tid(), {4095});
    FAIL() << "no error";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::invalid_argument);
    const std::string start = "cannot pin thread " + std::to_string(Tid()) + " to CPU 4095";
    EXPECT_EQ(std::string(error.what()).substr(0, start.size()), start);
  }
  EXPECT_THROW(Pin(0, {}), std::system_error);
}

TEST_F(Affinity, ExistingThreadsGetTheirPart) {
  Crowd crowd;
  std::atomic<pid_t> background{0};
  crowd.Add([&] { background = Tid(); });
  for (int i = 0; i < 5; ++i) crowd.Add([] {});
  crowd.WaitForParked(6);
  PinProcess(background, cpus_);
  ExpectPinned(background);
}

TEST_F(Affinity, LaterThreadsInheritTheRest) {
  PinProcess(Tid(), {cpus_.rest, cpus_.rest});
  Crowd crowd;
  crowd.Add([] {});
  crowd.WaitForParked(1);
  EXPECT_GE(AllTids().size(), 2u);
  for (pid_t tid : AllTids()) EXPECT_EQ(AllowedCpus(tid), cpus_.rest);
}

// A thread that is to sleep may wait long for its CPU before.
constexpr std::chrono::minutes kPatience(5);

// Each thread creates the next one, so the only thread that still creates any is always the
// youngest: the one that a single walk over the threads misses.
TEST_F(Affinity, ThreadsCreatedMeanwhileGetTheirPart) {
  constexpr int kRounds = 30;
  constexpr int kThreads = 100;
  for (int round = 0; round < kRounds; ++round) {
    for (pid_t tid : AllTids()) Pin(tid, allowed_);
    Crowd crowd;
    std::atomic<int> to_create{kThreads};
    std::function<void()> create_next = [&] {
      if (--to_create > 0) crowd.Add(create_next);
    };
    crowd.Add(create_next);
    while (to_create > kThreads - 5) std::this_thread::yield();
    PinProcess(Tid(), cpus_, kPatience);
    crowd.WaitForParked(kThreads);
    ExpectPinned(Tid());
    if (HasFailure()) return;
  }
}

// A running thread may be inside clone(), about to add a thread with an older mask.
TEST_F(Affinity, WaitsUntilEveryThreadHasBeenAsleep) {
  Crowd crowd;
  std::atomic<bool> running{false};
  std::atomic<bool> about_to_sleep{false};
  crowd.Add([&] {
    running = true;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
    while (std::chrono::steady_clock::now() < end) {
    }
    about_to_sleep = true;
  });
  while (!running) std::this_thread::yield();
  PinProcess(Tid(), cpus_, kPatience);
  EXPECT_TRUE(about_to_sleep);
}

TEST_F(Affinity, DoesNotWaitForeverForAThreadThatNeverSleeps) {
  std::atomic<bool> running{false};
  std::atomic<bool> stop{false};
  std::thread spinning([&] {
    running = true;
    while (!stop) {
    }
  });
  while (!running) std::this_thread::yield();
  PinProcess(Tid(), cpus_);
  ExpectPinned(Tid());
  stop = true;
  spinning.join();
}

TEST_F(Affinity, ThreadsThatEndMeanwhileDoNoHarm) {
  std::atomic<bool> stop{false};
  std::atomic<pid_t> creator_tid{0};
  std::thread creator([&] {
    creator_tid = Tid();
    while (!stop) std::thread([] {}).join();
  });
  while (creator_tid == 0) std::this_thread::yield();
  for (int round = 0; round < 200 && !HasFailure(); ++round) {
    Pin(creator_tid, allowed_);
    Pin(Tid(), allowed_);
    EXPECT_NO_THROW(PinProcess(Tid(), cpus_));
    EXPECT_EQ(AllowedCpus(), cpus_.background);
    EXPECT_EQ(AllowedCpus(creator_tid), cpus_.rest);
  }
  stop = true;
  creator.join();
  ExpectPinned(Tid());
}

TEST_F(Affinity, BackgroundThreadThatHasEnded) {
  std::atomic<pid_t> tid{0};
  std::thread([&] { tid = Tid(); }).join();
  while (std::filesystem::exists("/proc/self/task/" + std::to_string(tid))) {
    std::this_thread::yield();
  }
  EXPECT_THROW(PinProcess(tid, cpus_), std::system_error);
  EXPECT_EQ(AllowedCpus(), allowed_);
}

class Sysfs : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "sysfs-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void AddCpu(int cpu, const std::string& siblings, int package) {
    const auto topology = root_ / ("cpu" + std::to_string(cpu)) / "topology";
    std::filesystem::create_directories(topology);
    std::ofstream(topology / "thread_siblings_list") << siblings << "\n";
    std::ofstream(topology / "physical_package_id") << package << "\n";
  }

  std::filesystem::path root_;
};

TEST_F(Sysfs, SiblingsAreOneCore) {
  for (int cpu : {0, 2}) AddCpu(cpu, "0,2", 0);
  for (int cpu : {1, 3}) AddCpu(cpu, "1,3", 0);
  EXPECT_EQ(ReadCores(root_), (std::map<int, int>{{0, 0}, {1, 1}, {2, 0}, {3, 1}}));
}

TEST_F(Sysfs, CoresOfAPackageAreConsecutive) {
  for (int cpu : {0, 2, 10}) AddCpu(cpu, std::to_string(cpu), 0);
  for (int cpu : {1, 3, 11}) AddCpu(cpu, std::to_string(cpu), 1);
  EXPECT_EQ(ReadCores(root_),
            (std::map<int, int>{{0, 0}, {2, 1}, {10, 2}, {1, 3}, {3, 4}, {11, 5}}));
}

TEST_F(Sysfs, IgnoresWhatIsNoOnlineCpu) {
  AddCpu(0, "0-1", 0);
  AddCpu(1, "0-1", 0);
  for (const char* name : {"cpu7", "cpufreq", "cpuidle", "cpu", "power"}) {
    std::filesystem::create_directories(root_ / name);
  }
  EXPECT_EQ(ReadCores(root_), (std::map<int, int>{{0, 0}, {1, 0}}));
}

TEST_F(Sysfs, EmptyWhereNothingIsKnown) { EXPECT_TRUE(ReadCores(root_ / "absent").empty()); }

TEST(ReadCores, KnowsTheCpusOfThisMachine) {
  const auto core_of = ReadCores();
  if (core_of.empty()) GTEST_SKIP() << "no CPU topology in /sys";
  for (int cpu : AllowedCpus()) EXPECT_EQ(core_of.count(cpu), 1u) << "CPU " << cpu;
}

std::uint64_t Runtime() {
  std::array<std::uint64_t, 7> attributes{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, attributes.data(), 48, 0), 0);
  return attributes[3];
}

TEST(ShortSlice, ChangesTheSliceAndNothingElse) {
  int major = 0, minor = 0;
  utsname name;
  ASSERT_EQ(uname(&name), 0);
  ASSERT_EQ(std::sscanf(name.release, "%d.%d", &major, &minor), 2);
  if (sched_getscheduler(0) != SCHED_OTHER) GTEST_SKIP() << "another scheduling policy";
  ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 5), 0);
  AskForShortSlice();
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 5);
  if (major > 6 || (major == 6 && minor >= 12)) {
    EXPECT_EQ(Runtime(), 100000u);
  }
}

}  // namespace affinity_test
}  // namespace horovod_opt
