// Numbers of queues of steps: what a graph of TensorFlow can carry to where they are taken.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "horovod_opt/csrc/io/order/step_queue.h"

namespace horovod_opt {
namespace io {

// For several threads. Invariants: a number is never given twice; it is good for one Claim(), so
// that a queue has one taker; and the numbers keep no queue alive.
class QueueNumbers {
 public:
  std::int64_t Add(const std::shared_ptr<StepQueue>& queue);
  // Null: there is none of this number, or it has a taker already.
  std::shared_ptr<StepQueue> Claim(std::int64_t number);
  // It is not to be claimed any more.
  void Remove(std::int64_t number);

 private:
  std::mutex mutex_;
  std::int64_t next_ = 1;
  std::map<std::int64_t, std::weak_ptr<StepQueue>> queues_;
};

}  // namespace io
}  // namespace horovod_opt
