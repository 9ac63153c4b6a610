#include "horovod_opt/csrc/binding/base/state.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace horovod_opt {
namespace {

// In an unnamed namespace: the libraries of two frameworks are loaded into one process with their
// symbols visible to each other, and must not share it.
// Never freed, since a thread may outlive the destructors of static objects.
State& state = *new State;

double Seconds(std::chrono::nanoseconds length) {
  return std::chrono::duration<double>(length).count();
}

}  // namespace

State& GlobalState() { return state; }

Backoff BackoffOf(const HorovodOptSettings& settings) {
  return Backoff(settings.nbcs_yields, std::chrono::microseconds(settings.nbcs_sleep_min_us),
                 std::chrono::microseconds(settings.nbcs_sleep_max_us));
}

void BeginThread(State& state) {
  state.counters.Reset();
  state.negotiated_steps.Reset();
  state.path_counters.Reset();
  state.topo = nullptr;
  state.init_error.clear();
  state.global_sleep = GlobalSleep(state.settings.gs_interval);
  state.backoff = BackoffOf(state.settings);
  state.polling = false;
  std::lock_guard<std::mutex> lock(state.mutex);
  state.tid = static_cast<pid_t>(syscall(SYS_gettid));
  state.start_time = std::chrono::steady_clock::now();
  state.stats_by_rank.clear();
  state.running = true;
}

void EndThread(State& state) {
  std::lock_guard<std::mutex> lock(state.mutex);
  state.usage_at_end = ReadOwnThreadUsage();
  state.end_time = std::chrono::steady_clock::now();
  state.running = false;
  state.thread_end.notify_all();
}

HorovodOptStats ReadStats(State& state) {
  HorovodOptStats out{};
  ThreadUsage background;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    out = state.input;
    const bool running = state.running;
    background = state.usage_at_end;
    if (running) background = ReadThreadUsage(state.tid);
    out.mode = state.settings.mode;
    out.rank = state.rank;
    out.size = state.size;
    out.controller = state.controller;
    out.messages = state.messages;
    out.elapsed_seconds =
        Seconds((running ? std::chrono::steady_clock::now() : state.end_time) - state.start_time);
  }
  const PathCounters::Values planned = state.path_counters.Read();
  background += state.path_counters.Usage();
  const CycleCounters::Values values = state.counters.Read();
  const ThreadUsage process = ReadProcessUsage();
  out.cycles = values.cycles;
  out.cycles_slept = values.cycles_slept;
  out.sleep_seconds = Seconds(values.sleep);
  out.wait_seconds = Seconds(values.wait);
  out.polls = values.polls;
  out.poll_sleep_seconds = Seconds(values.poll_sleep);
  out.data_seconds = Seconds(values.data + planned.data);
  out.data_bytes = values.data_bytes + planned.bytes;
  out.steps = values.steps + planned.iterations;
  out.planned_iterations = planned.iterations;
  out.planned_buckets = planned.buckets;
  out.planned_bytes = planned.bytes;
  out.planned_wakeups = planned.wakeups;
  out.requested_rounds = planned.rounds;
  out.steady_rounds = planned.steady_rounds;
  out.agreements = planned.agreements;
  out.planned_latency_seconds = Seconds(planned.latency);
  out.background_user_seconds = Seconds(background.user);
  out.background_system_seconds = Seconds(background.system);
  out.background_voluntary_switches = background.voluntary_switches;
  out.background_involuntary_switches = background.involuntary_switches;
  out.process_user_seconds = Seconds(process.user);
  out.process_system_seconds = Seconds(process.system);
  out.process_voluntary_switches = process.voluntary_switches;
  out.process_involuntary_switches = process.involuntary_switches;
  return out;
}

}  // namespace horovod_opt
