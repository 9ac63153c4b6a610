// One rank of a node tells the others that it wants a round of negotiation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// Lives in zeroed shared memory, aligned to 64. Rounds are numbered from 1; any thread of any rank
// may call anything.
class Doorbell {
 public:
  // Round `round`, and all before it, are wanted. Costs one load if that is known already. True for
  // the one who says it first.
  bool Ring(std::uint64_t round);

  // True once `round` is wanted; false when `timeout` has passed or `stop` is set, which is noticed
  // after Kick(), and without it within 100 ms. A timeout of zero only looks.
  bool Wait(std::uint64_t round, std::chrono::nanoseconds timeout, const std::atomic<bool>& stop);

  // Makes all who wait look at `stop`.
  void Kick();

 private:
  EventCount rung_;
  alignas(64) std::atomic<std::uint64_t> requested_{0};
};

}  // namespace horovod_opt
