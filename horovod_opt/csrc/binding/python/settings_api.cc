// What horovod_opt/runtime.py calls through ctypes.
#include <mutex>

#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/core/cores/affinity.h"

using horovod_opt::GlobalState;
using horovod_opt::State;

extern "C" {

const char* horovod_opt_abi() { return HOROVOD_OPT_ABI; }

// Takes effect at the next start; a second hvd.init() while Horovod runs changes nothing.
void horovod_opt_configure(const HorovodOptSettings* settings, const char* settings_text,
                           const char* error_text) {
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.running) return;
  state.settings = *settings;
  state.settings_text = settings_text;
  state.settings_error = error_text;
  state.launcher_cpus = horovod_opt::AllowedCpus();
}

const char* horovod_opt_init_error() { return GlobalState().init_error.c_str(); }

int horovod_opt_stats(HorovodOptStats* out) {
  State& state = GlobalState();
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    if (state.size == 0) return -1;
  }
  *out = horovod_opt::ReadStats(state);
  return 0;
}

// The counters that begin with input_; the others are not looked at.
void horovod_opt_set_input(HorovodOptStats* input) {
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.input = *input;
}

int horovod_opt_gathered_ranks() {
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  return static_cast<int>(state.stats_by_rank.size());
}

int horovod_opt_gathered_stats(int rank, HorovodOptStats* out) {
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (rank < 0 || rank >= static_cast<int>(state.stats_by_rank.size())) return -1;
  *out = state.stats_by_rank[rank];
  return 0;
}

}  // extern "C"
