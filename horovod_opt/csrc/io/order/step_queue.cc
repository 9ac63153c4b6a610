#include "horovod_opt/csrc/io/order/step_queue.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "horovod_opt_io_abi.h"

namespace horovod_opt {
namespace io {
namespace {

void Check(const StepGroup& group) {
  const std::size_t steps = group.ends.size();
  const bool ascend = steps > 0 && group.ends.front() >= 0 &&
                      std::is_sorted(group.ends.begin(), group.ends.end()) && group.parts > 0;
  const std::size_t samples = ascend ? static_cast<std::size_t>(group.ends.back()) : 0;
  const std::size_t records = samples * static_cast<std::size_t>(group.parts);
  const auto has = [](const auto& column, std::size_t count) { return column.size() == count; };
  if (!ascend || !has(group.loads, records) || !has(group.places, records) ||
      !has(group.sizes, records) || !has(group.offsets, records) || !has(group.files, records) ||
      !(has(group.checksums, records) || group.checksums.empty()) ||
      !(has(group.chunks, records) || group.chunks.empty()) ||
      !(has(group.labels, samples) || group.labels.empty()) ||
      !has(group.infos, steps * StepGroup::kInfos) || !has(group.weights, steps)) {
    throw std::invalid_argument("steps from " + std::to_string(group.cache_step) +
                                " on have arrays of lengths that do not fit together");
  }
}

}  // namespace

StepQueue::Event StepQueue::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (is_stopped_) return Event::kStop;
    if (is_asked_ && !is_answered_) return Event::kQuestion;
    if (!is_finished_ && groups_.size() < kGroups) return Event::kRoom;
    changed_.wait(lock);
  }
}

void StepQueue::Add(StepGroup group) {
  Check(group);
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.push_back(std::move(group));
  changed_.notify_all();
}

void StepQueue::Finish(bool has_failed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_finished_ = true;
  has_failed_ = has_failed;
  changed_.notify_all();
}

StepQuestion StepQueue::question() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return question_;
}

void StepQueue::Answer(std::int64_t number, StepAnswer answer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_asked_ || number != question_.number) return;
  answer_ = std::move(answer);
  is_answered_ = true;
  changed_.notify_all();
}

void StepQueue::Stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_stopped_ = true;
  changed_.notify_all();
}

void StepQueue::Detach() {
  std::unique_lock<std::mutex> lock(mutex_);
  is_detached_ = true;
  changed_.wait(lock, [this] { return !is_filling_; });
}

std::int64_t StepQueue::handed_out() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return handed_out_;
}

std::chrono::nanoseconds StepQueue::waited() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waited_;
}

StepQueue::Next StepQueue::Look(std::chrono::nanoseconds longest, QueuedStep& step) {
  std::unique_lock<std::mutex> lock(mutex_);
  is_asked_ = is_answered_ = false;
  changed_.wait_for(lock, longest,
                    [this] { return is_stopped_ || is_finished_ || !groups_.empty(); });
  if (is_stopped_) return Next::kStopped;
  if (groups_.empty()) {
    if (!is_finished_) return Next::kTimeout;
    return has_failed_ ? Next::kFailed : Next::kOver;
  }
  const StepGroup& group = groups_.front();
  const std::int64_t first = next_ == 0 ? 0 : group.ends[next_ - 1];
  step_ = {&group, static_cast<std::int64_t>(next_), first, group.ends[next_] - first};
  step = step_;
  return Next::kStep;
}

int StepQueue::Take(const std::int64_t* places, std::int64_t& begin,
                    std::chrono::nanoseconds longest) {
  struct Filling {
    explicit Filling(StepQueue& filled) : queue(filled) {}
    ~Filling() {
      const std::lock_guard<std::mutex> lock(queue.mutex_);
      queue.is_filling_ = false;
      queue.changed_.notify_all();
    }
    StepQueue& queue;
  };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_detached_ || is_stopped_) return HIO_CLOSED;
    is_filling_ = true;
  }
  const Filling filling(*this);
  // Those before `begin` have theirs from an earlier call for the same step.
  statuses_.resize(static_cast<std::size_t>(step_.samples * step_.group->parts));
  return fill_(step_, places, statuses_.data(), begin, longest);
}

StepQueue::AskResult StepQueue::Ask(int code, const std::string& text,
                                std::chrono::nanoseconds longest, StepAnswer& answer) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!is_asked_) {
    question_ = {question_.number + 1, handed_out_, code, text,
                 code == HIO_OK ? statuses_ : std::vector<Status>()};
    is_asked_ = true;
    changed_.notify_all();
  }
  changed_.wait_for(lock, longest, [this] { return is_answered_ || is_stopped_; });
  if (is_answered_) {
    answer = std::move(answer_);
    is_asked_ = is_answered_ = false;
    return AskResult::kAnswered;
  }
  return is_stopped_ ? AskResult::kStopped : AskResult::kTimeout;
}

void StepQueue::HandOut(std::chrono::nanoseconds waited) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++handed_out_;
  waited_ += waited;
  if (++next_ == groups_.front().ends.size()) {
    groups_.pop_front();
    next_ = 0;
    changed_.notify_all();
  }
}

std::int64_t QueueNumbers::Add(const std::shared_ptr<StepQueue>& queue) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queues_.emplace(next_, queue);
  return next_++;
}

std::shared_ptr<StepQueue> QueueNumbers::Claim(std::int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = queues_.find(number);
  if (entry == queues_.end()) return nullptr;
  std::shared_ptr<StepQueue> queue = entry->second.lock();
  queues_.erase(entry);
  return queue;
}

void QueueNumbers::Remove(std::int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queues_.erase(number);
}

}  // namespace io
}  // namespace horovod_opt
