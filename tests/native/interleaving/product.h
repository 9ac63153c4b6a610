// The product's sources once more, in namespace stepped_opt, with atomics, mutexes and futexes
// whose accesses are steps of fibers. In one file of tests.
#pragma once

#include <errno.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <shared_mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/counters/path_counters.h"
#include "tests/native/interleaving/stepped.h"

namespace fibers = horovod_opt::interleaving;

#define horovod_opt stepped_opt
#define atomic Atomic
#define mutex Mutex
#define shared_mutex Mutex
#define SleepFor RealSleepFor
#include "horovod_opt/csrc/core/waiting/sleep.h"
#undef SleepFor

namespace horovod_opt {

inline std::chrono::nanoseconds SleepFor(std::chrono::nanoseconds length) {
  if (auto* const world = ::fibers::Fibers::Running()) world->Doze();
  return length;
}

}  // namespace horovod_opt

#include "horovod_opt/csrc/core/waiting/futex.h"

namespace horovod_opt {
namespace futex {

// Who sleeps on which word.
struct Sleep {
  const void* word;
  Sleepers who;
  bool is_over;
};
inline std::map<int, Sleep> sleeps;  // by fiber

inline bool Wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds,
                 Sleepers who) {
  auto* const world = ::fibers::Fibers::Running();
  if (word.load() != expected) return false;
  const int number = world->number();
  sleeps[number] = {&word, who, false};
  world->Step(&word, [number] { return sleeps.at(number).is_over; });
  sleeps.erase(number);
  return true;
}

inline void Wake(std::atomic<std::uint32_t>& word, Sleepers who) {
  if (::fibers::Fibers::Running() == nullptr) return;
  word.load();
  for (auto& [number, sleep] : sleeps) {
    if (sleep.word == &word && (sleep.who & who) != 0) sleep.is_over = true;
  }
}

}  // namespace futex
}  // namespace horovod_opt

#include "horovod_opt/csrc/core/elements/arithmetic.h"

namespace horovod_opt {

// Nobody waits for what is counted.
struct PathCounters {
  void AddBucket(std::int64_t, std::chrono::nanoseconds, std::chrono::nanoseconds) {}
  void AddIteration() {}
};

// What is done to the tests' gradients of int32, step by step; the product's is not needed.
void ReduceRows(void* out, const void* const* rows, int number, std::int64_t);
void ScaleRow(void* row, std::int64_t, double);
inline std::optional<Arithmetic> ArithmeticOf(int, int) {
  return Arithmetic{sizeof(std::int32_t), ReduceRows, ScaleRow};
}

}  // namespace horovod_opt

#include "horovod_opt/csrc/core/elements/tensor_view.cc"
#include "horovod_opt/csrc/core/plan/bucket_filling.cc"
#include "horovod_opt/csrc/core/plan/consensus.cc"
#include "horovod_opt/csrc/core/plan/plan.cc"
#include "horovod_opt/csrc/core/plan/plan_run.cc"
#include "horovod_opt/csrc/core/plan/plan_run_votes.cc"
#include "horovod_opt/csrc/core/plan/plan_table.cc"
#include "horovod_opt/csrc/core/plan/plan_table_reports.cc"
#include "horovod_opt/csrc/core/plan/plan_table_votes.cc"
#include "horovod_opt/csrc/core/plan/planned_bucket.cc"
#include "horovod_opt/csrc/core/plan/rebuild_buckets.cc"
#include "horovod_opt/csrc/core/reduction/gpu_data_wait.h"
#include "horovod_opt/csrc/core/reduction/small_buckets.cc"
#include "horovod_opt/csrc/core/report/state_page.cc"
#include "horovod_opt/csrc/core/shared_memory/bucket_ids.cc"
#include "horovod_opt/csrc/core/shared_memory/bucket_places.cc"
#include "horovod_opt/csrc/core/shared_memory/ready_queue.cc"
#include "tests/native/plan/sample_plans.h"

#undef horovod_opt
#undef atomic
#undef mutex
#undef shared_mutex
