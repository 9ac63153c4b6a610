#include "state.h"

#include <system_error>

namespace horovod_opt {
namespace {

// In an unnamed namespace: the libraries of two frameworks are loaded into one process with their
// symbols visible to each other, and must not share it.
State state;

double Seconds(std::chrono::nanoseconds length) {
  return std::chrono::duration<double>(length).count();
}

}  // namespace

State& GlobalState() { return state; }

HorovodOptStats ReadStats(State& state) {
  HorovodOptStats out{};
  ThreadUsage background;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    const bool running = state.running;
    background = state.usage_at_end;
    if (running) background = ReadThreadUsage(state.tid);
    out.rank = state.rank;
    out.size = state.size;
    out.controller = state.controller;
    out.elapsed_seconds =
        Seconds((running ? std::chrono::steady_clock::now() : state.ended) - state.started);
  }
  const Counters::Values values = state.counters.Read();
  const ThreadUsage process = ReadProcessUsage();
  out.mode = state.settings.mode;
  out.cycles = values.cycles;
  out.cycles_slept = values.cycles_slept;
  out.sleep_seconds = Seconds(values.sleep);
  out.wait_seconds = Seconds(values.wait);
  out.polls = values.polls;
  out.poll_sleep_seconds = Seconds(values.poll_sleep);
  out.data_seconds = Seconds(values.data);
  out.data_bytes = values.data_bytes;
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
