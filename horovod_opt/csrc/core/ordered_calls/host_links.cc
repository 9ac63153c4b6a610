#include "horovod_opt/csrc/core/ordered_calls/host_links.h"

#include <chrono>
#include <utility>

namespace horovod_opt {
namespace {

constexpr std::int64_t kMessages = 8 << 20;  // bytes, for messages
// A stop that comes without Close() is seen so late at most.
constexpr std::chrono::milliseconds kLookAgain(100);

}  // namespace

HostLinks::HostLinks(std::unique_ptr<Transport> transport, int members, int self)
    : members_(members), self_(self), buffers_(kMessages), transport_(std::move(transport)) {}

bool HostLinks::Run(std::unique_ptr<NonblockingCollective> collective,
                    const std::atomic<bool>& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_closing_ || stop || transport_ == nullptr) return false;
  bool over = false;
  std::exception_ptr problem;
  try {
    over = Advance(*collective, stop);
  } catch (...) {
    problem = std::current_exception();
  }
  if (!over) stopped_ = std::move(collective);
  lock.unlock();
  if (is_closing_) Close();
  if (problem != nullptr) std::rethrow_exception(problem);
  return over;
}

bool HostLinks::Advance(NonblockingCollective& collective, const std::atomic<bool>& stop) {
  while (!collective.Advance(*transport_, buffers_)) {
    if (is_closing_ || stop) return false;
    transport_->Progress(Transport::Clock::now() + kLookAgain);
  }
  return true;
}

void HostLinks::Close() {
  is_closing_ = true;
  {
    std::lock_guard<std::mutex> lock(transport_mutex_);
    if (transport_ != nullptr) transport_->Wake();
  }
  // Whoever is in Run() comes here when it has left.
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock) return;
  std::lock_guard<std::mutex> own(transport_mutex_);
  transport_.reset();
  stopped_.reset();
}

}  // namespace horovod_opt
