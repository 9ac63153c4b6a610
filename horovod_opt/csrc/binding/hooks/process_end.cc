// What becomes of upstream's background thread when its process ends or forks: WatchProcess().
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <new>
#include <thread>

#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/hooks/background_thread.h"
#include "horovod_opt/csrc/binding/hooks/enqueue.h"
#include "horovod_opt/csrc/binding/report/process_state.h"

namespace horovod_opt {
namespace {

constexpr std::chrono::seconds kExitPatience(10);

horovod::common::HorovodGlobalState* horovod_state;

void ShutDownAtExit() {
  State& state = GlobalState();
  std::unique_lock<std::mutex> lock(state.mutex);
  if (!state.running || state.tid == syscall(SYS_gettid)) return;
  lock.unlock();
  horovod_state->timeline.Shutdown();
  horovod_state->shut_down = true;
  RequestAdded();
  lock.lock();
  if (state.thread_end.wait_for(lock, kExitPatience, [&] { return !state.running; })) return;
  std::cerr << "horovod-opt: rank " + std::to_string(state.rank) + " exits, though Horovod could " +
                   "not be shut down within " + std::to_string(kExitPatience.count()) + " s\n"
            << std::flush;
}

// What other threads of the parent had locked stays locked here, so each mutex is a new one.
void ForgetParentsThreads() {
  State& state = GlobalState();
  new (&state.mutex) std::mutex;
  LeaveStateSocketToParent();
  new (&horovod_state->start_stop_mutex) std::mutex;
  if (!horovod_state->background_thread.joinable()) return;
  new (&horovod_state->background_thread) std::thread;
  horovod_state->shut_down = true;
  state.topo = nullptr;
  state.running = false;
}

}  // namespace

void WatchProcess(horovod::common::HorovodGlobalState& horovod) {
  static std::once_flag once;
  std::call_once(once, [&] {
    horovod_state = &horovod;
    std::atexit(ShutDownAtExit);
    pthread_atfork(nullptr, nullptr, ForgetParentsThreads);
  });
}

}  // namespace horovod_opt
