#include "horovod_opt/csrc/io/order/queue_numbers.h"

namespace horovod_opt {
namespace io {

std::int64_t QueueNumbers::Add(const std::shared_ptr<StepQueue>& queue) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queues_.emplace(next_, queue);
  return next_++;
}

std::shared_ptr<StepQueue> QueueNumbers::Claim(std::int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = queues_.find(number);
  if (found == queues_.end()) return nullptr;
  std::shared_ptr<StepQueue> queue = found->second.lock();
  queues_.erase(found);
  return queue;
}

void QueueNumbers::Remove(std::int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queues_.erase(number);
}

}  // namespace io
}  // namespace horovod_opt
