// Waiting for an event, however slow and busy the machine is.
#pragma once

#include <chrono>
#include <thread>

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

}  // namespace horovod_opt
