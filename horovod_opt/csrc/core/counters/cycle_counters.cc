#include "horovod_opt/csrc/core/counters/cycle_counters.h"

#include <initializer_list>

namespace horovod_opt {
namespace {

using std::chrono::nanoseconds;

std::int64_t Load(const std::atomic<std::int64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

}  // namespace

CycleCounters::Values CycleCounters::Read() const {
  return {Load(cycles_),
          Load(cycles_slept_),
          nanoseconds(Load(sleep_)),
          nanoseconds(Load(wait_)),
          Load(polls_),
          nanoseconds(Load(poll_sleep_)),
          nanoseconds(Load(data_)),
          Load(data_bytes_),
          Load(steps_)};
}

void CycleCounters::Reset() {
  for (Counter* counter : {&cycles_, &cycles_slept_, &sleep_, &wait_, &polls_, &poll_sleep_, &data_,
                           &data_bytes_, &steps_}) {
    counter->store(0, std::memory_order_relaxed);
  }
}

}  // namespace horovod_opt
