// Waiting for an event, however slow and busy the machine is.
#pragma once

#include <chrono>
#include <thread>

#include "horovod_opt/csrc/core/counters/thread_usage.h"

namespace horovod_opt {

// Only a hang takes so long.
constexpr std::chrono::seconds kHang{60};

// Until happened() is true; false if that hangs.
template <class Happened>
bool Await(const Happened& happened) {
  const auto end = std::chrono::steady_clock::now() + kHang;
  while (!happened()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Until this thread has given up its core so often: a sleep that ends before the kernel has found
// another thread to run is no switch.
inline void GiveUpCore(int times) {
  const auto switches = [] { return ReadOwnThreadUsage().voluntary_switches; };
  for (const auto end = switches() + times; switches() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace horovod_opt
