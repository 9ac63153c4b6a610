#include "horovod_opt/csrc/core/shared_memory/doorbell.h"

namespace horovod_opt {
namespace {

EventCount::Clock::time_point After(std::chrono::nanoseconds timeout) {
  const auto now = EventCount::Clock::now();
  const auto latest = EventCount::Clock::time_point::max();
  return timeout < latest - now ? now + timeout : latest;
}

}  // namespace

bool Doorbell::Ring(std::uint64_t round) {
  std::uint64_t requested = requested_.load();
  do {
    if (requested >= round) return false;
  } while (!requested_.compare_exchange_weak(requested, round));
  rung_.Notify();
  return true;
}

bool Doorbell::Wait(std::uint64_t round, std::chrono::nanoseconds timeout,
                    const std::atomic<bool>& stop) {
  const auto is_wanted = [&] { return requested_.load() >= round; };
  if (timeout <= timeout.zero()) return is_wanted();
  WaitCounts counts;
  return rung_.Await(is_wanted, stop, counts, EventCount::kLongestSleep, After(timeout));
}

void Doorbell::Kick() { rung_.Kick(); }

}  // namespace horovod_opt
