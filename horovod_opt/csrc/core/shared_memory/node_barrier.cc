#include "horovod_opt/csrc/core/shared_memory/node_barrier.h"

namespace horovod_opt {

bool NodeBarrier::Pass(std::uint64_t number, int ranks, const std::atomic<bool>& stop,
                       WaitCounts& counts) {
  const std::uint64_t all = number * static_cast<std::uint64_t>(ranks);
  if (arrived_.fetch_add(1) + 1 == all) {
    opened_.Notify();
    return true;
  }
  const auto is_open = [&] { return arrived_.load() >= all; };
  return opened_.Await(is_open, stop, counts, EventCount::kLongestSleep);
}

void NodeBarrier::Kick() { opened_.Kick(); }

}  // namespace horovod_opt
