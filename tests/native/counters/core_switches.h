// Context switches that a thread asks for itself.
#pragma once

#include <chrono>
#include <thread>

#include "horovod_opt/csrc/core/counters/thread_usage.h"

namespace horovod_opt {

// Sleeps until this thread has given up its core so often: a sleep that ends before the kernel has
// found another thread to run is no switch.
inline void GiveUpCore(int times) {
  const auto switches = [] { return ReadOwnThreadUsage().voluntary_switches; };
  for (const auto end = switches() + times; switches() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace horovod_opt
