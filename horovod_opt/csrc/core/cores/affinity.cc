#include "horovod_opt/csrc/core/cores/affinity.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt/csrc/core/waiting/sleep.h"

namespace horovod_opt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxDisturbances = 2000;  // 1 is usual
constexpr std::chrono::milliseconds kBetweenWalks{1};

[[noreturn]] void Fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

struct FreeCpuSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};
using CpuSet = std::unique_ptr<cpu_set_t, FreeCpuSet>;

CpuSet AllocateCpuSet(int cpus) {
  CpuSet set(CPU_ALLOC(cpus));
  if (!set) Fail(ENOMEM, "CPU set");
  CPU_ZERO_S(CPU_ALLOC_SIZE(cpus), set.get());
  return set;
}

// Names of <directory> that are `prefix` and a number: the numbers, sorted.
std::set<int> NumberedEntries(const std::string& directory, const std::string& prefix) {
  std::set<int> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
  if (!entries) return numbers;
  while (const dirent* entry = readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name.size() == prefix.size() || name.compare(0, prefix.size(), prefix) != 0) continue;
    if (name.find_first_not_of("0123456789", prefix.size()) != std::string::npos) continue;
    numbers.insert(std::stoi(name.substr(prefix.size())));
  }
  return numbers;
}

std::set<pid_t> Threads() {
  std::set<pid_t> threads = NumberedEntries("/proc/self/task", "");
  if (threads.empty()) Fail(ENOENT, "/proc/self/task");
  return threads;
}

// The first number of a one-line file, `otherwise` if there is none.
int FirstNumber(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int number;
  return file >> number ? number : otherwise;
}

// True if the thread runs on `cpus` without our help, or has ended.
bool IsPinned(pid_t tid, const std::vector<int>& cpus) {
  try {
    return AllowedCpus(tid) == cpus;
  } catch (const std::system_error& error) {
    if (error.code().value() == ESRCH) return true;
    throw;
  }
}

// True if the thread waits, interruptibly, in some system call, or has ended.
bool IsAsleep(pid_t tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/stat");
  std::string stat;
  if (!std::getline(file, stat)) return true;
  const std::size_t name_end = stat.rfind(')');  // the state follows, see proc(5)
  return name_end + 2 < stat.size() && stat[name_end + 2] == 'S';
}

constexpr std::uint64_t kSlice = 100000;  // ns; the kernel's least

// As in linux/sched/types.h, which older C libraries cannot include beside sched.h.
struct Attributes {
  std::uint32_t size, policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime, deadline, period;
};

}  // namespace

std::vector<int> AllowedCpus(pid_t tid) {
  // The kernel refuses a set smaller than its own, whose size it does not tell.
  for (int size = CPU_SETSIZE;; size *= 2) {
    const CpuSet set = AllocateCpuSet(size);
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    if (sched_getaffinity(tid, bytes, set.get()) == 0) {
      std::vector<int> cpus;
      for (int cpu = 0; cpu < size; ++cpu) {
        if (CPU_ISSET_S(cpu, bytes, set.get())) cpus.push_back(cpu);
      }
      return cpus;
    }
    if (errno != EINVAL || size > (1 << 20)) {
      Fail(errno, "sched_getaffinity of thread " + std::to_string(tid));
    }
  }
}

std::map<int, int> ReadCores(const std::string& root) {
  std::map<std::pair<int, int>, std::vector<int>> cores;  // (package, first sibling) -> CPUs
  for (int cpu : NumberedEntries(root, "cpu")) {
    const std::string topology = root + "/cpu" + std::to_string(cpu) + "/topology/";
    const int first_sibling = FirstNumber(topology + "thread_siblings_list", -1);
    if (first_sibling < 0) continue;
    cores[{FirstNumber(topology + "physical_package_id", 0), first_sibling}].push_back(cpu);
  }
  std::map<int, int> core_of;
  int number = 0;
  for (const auto& core : cores) {
    for (int cpu : core.second) core_of[cpu] = number;
    ++number;
  }
  return core_of;
}

void Pin(pid_t tid, const std::vector<int>& cpus) {
  const int size = cpus.empty() ? 1 : *std::max_element(cpus.begin(), cpus.end()) + 1;
  const CpuSet set = AllocateCpuSet(size);
  const std::size_t bytes = CPU_ALLOC_SIZE(size);
  for (int cpu : cpus) CPU_SET_S(cpu, bytes, set.get());
  if (sched_setaffinity(tid, bytes, set.get()) != 0) {
    Fail(errno, "cannot pin thread " + std::to_string(tid) + " to " + Ranges("CPU", cpus));
  }
}

bool PinIfAlive(pid_t tid, const std::vector<int>& cpus) {
  try {
    Pin(tid, cpus);
    return true;
  } catch (const std::system_error& error) {
    if (error.code().value() == ESRCH) return false;
    throw;
  }
}

// A thread inherits the mask of its creator as that was when the creation began, and is seen only
// when it ends: a walk over the threads proves nothing about one that is being created meanwhile.
// So a walk is asked for that changes no mask and finds every thread asleep, hence outside
// clone(). Whatever they created with an older mask is visible by then, and whatever they create
// later inherits the new one. The next walk either finds nothing to change, which is the end, or
// starts over.
//
// The kernel may skip threads when the one it stands on in the list ends. The second walk must
// also see every thread of the first, so a thread stays hidden only if that happens in both.
void PinProcess(pid_t background_tid, const RankCpus& cpus, std::chrono::milliseconds patience) {
  const pid_t self = static_cast<pid_t>(syscall(SYS_gettid));
  Pin(background_tid, cpus.background);
  std::set<pid_t> settled;  // the previous walk's threads if it was as described, else empty
  auto patience_ends = Clock::now() + patience;
  for (int disturbances = 0; disturbances < kMaxDisturbances;) {
    std::set<pid_t> threads = Threads();
    bool changed = false;
    bool all_asleep = true;
    for (pid_t tid : threads) {
      if (tid == background_tid) continue;
      if (IsPinned(tid, cpus.rest)) {
        if (tid != self && !IsAsleep(tid)) all_asleep = false;
      } else if (PinIfAlive(tid, cpus.rest)) {
        changed = true;
      }
    }
    if (changed) {
      patience_ends = Clock::now() + patience;
      settled.clear();
      ++disturbances;
      continue;
    }
    if (!settled.empty()) {
      if (std::includes(threads.begin(), threads.end(), settled.begin(), settled.end())) return;
      settled.clear();
      ++disturbances;
    }
    if (all_asleep || Clock::now() >= patience_ends) {
      settled = std::move(threads);
    } else {
      SleepFor(kBetweenWalks);
    }
  }
  Fail(EAGAIN, "threads start and end, or change their masks, faster than they can be pinned to " +
                   Ranges("CPU", cpus.rest));
}

void AskForShortSlice() {
  Attributes attributes{};
  attributes.size = sizeof(attributes);
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime = kSlice;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace horovod_opt
