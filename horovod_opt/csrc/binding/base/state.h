// Global state of one framework's native library: what the binding keeps between hvd.init() and
// shutdown.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/counters/cycle_counters.h"
#include "horovod_opt/csrc/core/counters/path_counters.h"
#include "horovod_opt/csrc/core/counters/step_count.h"
#include "horovod_opt/csrc/core/counters/thread_usage.h"
#include "horovod_opt/csrc/core/waiting/backoff.h"
#include "horovod_opt/csrc/core/waiting/global_sleep.h"
#include "horovod_opt_abi.h"

namespace horovod_opt {

class Topo;

// Who may touch what:
// - while no background thread runs, the thread that calls hvd.init();
// - while one runs, that thread, and nobody writes what stands before `running`, except for
//   `counters`, `global_sleep`, `backoff`, `polling` and `keeps_tensors_apart`, its own (for
//   `counters` see there);
// - at any time any thread may read `counters`, `path_counters`, `topo`, `running` and, under
//   `mutex`, `settings` and what stands after the mutex. All writes to these are under it, too.
// A thread that reads `running` under the mutex as true may look at /proc for `tid`: the thread
// cannot end before the mutex is free.
struct State {
  HorovodOptSettings settings{};
  std::string settings_text;  // canonical, equal on all ranks
  std::string settings_error;
  std::string init_error;

  bool Has(int mode) const { return (settings.mode & mode) != 0; }

  CycleCounters counters;
  StepCount negotiated_steps;  // names of tensors, negotiated; of the background thread
  GlobalSleep global_sleep{1};
  Backoff backoff{0, std::chrono::microseconds(1), std::chrono::microseconds(1)};
  // Modes nbcs and topo, once all ranks are known to have it: a nonblocking collective does not
  // match a blocking one, so the agreement itself blocks on every rank.
  bool polling = false;
  bool keeps_tensors_apart = false;
  std::vector<int> launcher_cpus;
  std::vector<int> planned_cpus;  // of the threads hvd-planned; empty: where they are started

  PathCounters path_counters;
  std::atomic<Topo*> topo{nullptr};  // mode topo only; what it points to is never deleted
  std::atomic<bool> running{false};

  std::mutex mutex;                    // protects the rest
  std::condition_variable thread_end;  // `running` is false
  pid_t tid = 0;
  int rank = 0;
  int size = 0;
  int controller = 0;
  std::atomic<int> messages{0};  // HOROVOD_OPT_MESSAGES_*
  std::chrono::steady_clock::time_point start_time;
  std::chrono::steady_clock::time_point end_time;
  ThreadUsage usage_at_end;
  HorovodOptStats input{};      // its counters of the input side, as Python has set them
  std::set<std::string> plans;  // as Python has handed them over, for every start
  std::vector<HorovodOptStats> stats_by_rank;  // by rank, at shutdown, where they are printed
};

// The pauses between two tests of what MPI completes, as the settings have them.
Backoff BackoffOf(const HorovodOptSettings& settings);

// The calling thread becomes the background thread, and stops being it.
void BeginThread(State& state);
void EndThread(State& state);

// One per native library: TensorFlow's and PyTorch's each have their own background thread.
State& GlobalState();

// The counters and the cost of the background thread, as of now or as of its end.
HorovodOptStats ReadStats(State& state);

}  // namespace horovod_opt
