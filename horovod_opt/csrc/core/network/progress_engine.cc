#include "horovod_opt/csrc/core/network/progress_engine.h"

#include <pthread.h>

#include <exception>
#include <utility>

namespace horovod_opt {

Exchanges::Exchanges(std::unique_ptr<Transport> transport, std::int64_t memory,
                     std::function<void()> began, std::function<void()> ended,
                     std::function<void(std::uint64_t number)> heard)
    : transport_(std::move(transport)),
      buffers_(memory),
      thread_([this, began = std::move(began), ended = std::move(ended),
               heard = std::move(heard)]() mutable {
        transport_->Listen(std::move(heard));
        began();
        Run();
        ended();
      }) {}

void Exchanges::Close() {
  if (!thread_.joinable()) return;
  stop_ = true;
  transport_->Wake();
  thread_.join();
}

Exchanges::~Exchanges() {
  Close();
  if (!transport_->MustStay()) return;
  // Never deleted, nor is the memory that they use.
  static auto& for_ever = *new std::vector<std::unique_ptr<Transport>>;
  static auto& with_them = *new std::list<std::unique_ptr<Nonblocking>>;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  for_ever.push_back(std::move(transport_));
  with_them.splice(with_them.end(), under_way_);
}

void Exchanges::Begin(std::unique_ptr<Nonblocking> collective) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    begun_.push_back(std::move(collective));
  }
  transport_->Wake();
}

void Exchanges::Ring(std::uint64_t number) {
  std::uint64_t greatest = ring_;
  while (greatest < number && !ring_.compare_exchange_weak(greatest, number)) continue;
  transport_->Wake();
}

std::string Exchanges::Failure() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

void Exchanges::Fail(std::string failure) {
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = std::move(failure);
}

// No exception may leave a thread: it would end the process without a word to the other ranks.
void Exchanges::Run() {
  pthread_setname_np(pthread_self(), "hvd-nodes");
  try {
    while (!stop_) {
      Advance();
      if (!stop_) transport_->Progress(Transport::Clock::time_point::max());
    }
  } catch (const std::exception& problem) {
    Fail(problem.what());
  }
}

void Exchanges::Advance() {
  const std::uint64_t ring = ring_;
  if (ring > rung_) {
    rung_ = ring;
    transport_->Ring(ring);
  }
  std::vector<std::unique_ptr<Nonblocking>> begun;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    begun.swap(begun_);
  }
  for (auto& collective : begun) under_way_.push_back(std::move(collective));
  for (auto collective = under_way_.begin(); collective != under_way_.end();) {
    const bool over = (*collective)->Advance(*transport_, buffers_);
    collective = over ? under_way_.erase(collective) : std::next(collective);
  }
}

}  // namespace horovod_opt
