#include "horovod_opt/csrc/core/shm/ready_queue.h"

#include <stdexcept>
#include <string>

namespace horovod_opt {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
static_assert(ReadyLog::kEntries > ReadyLog::kTickets, "invariant 2");

std::uint64_t Entry(std::uint64_t position, int ticket) {
  return (position + 1) * ReadyLog::kTickets + static_cast<std::uint64_t>(ticket);
}

}  // namespace

std::size_t ReadyLog::Bytes() { return sizeof(ReadyLog); }

void ReadyLog::Ready(int ticket, int ranks) {
  if (ticket < 0 || ticket >= kTickets) {
    throw std::out_of_range("ticket " + std::to_string(ticket) + " of a bucket is not in 0.." +
                            std::to_string(kTickets - 1));
  }
  const std::uint64_t calls = calls_[ticket].fetch_add(1) + 1;
  if (calls % static_cast<std::uint64_t>(ranks) != 0) return;
  const std::uint64_t position = size_.fetch_add(1);
  entries_[position % kEntries].store(Entry(position, ticket));
  appended_.Notify();
}

bool ReadyLog::Next(std::uint64_t position, int& ticket, const std::atomic<bool>& stop,
                    WaitCounts& counts) {
  std::uint64_t entry = 0;
  const auto is_there = [&] {
    entry = entries_[position % kEntries].load();
    return entry >= Entry(position, 0);
  };
  if (!appended_.Await(is_there, stop, counts)) return false;
  if (entry >= Entry(position + 1, 0)) {
    throw std::logic_error("entry " + std::to_string(position) +
                           " of the log of ready buckets is overwritten by entry " +
                           std::to_string(entry / kTickets - 1) +
                           ": a rank reported a bucket again before it had performed it");
  }
  ticket = static_cast<int>(entry % kTickets);
  return true;
}

void ReadyLog::Kick() { appended_.Kick(); }

std::uint64_t ReadyLog::Size() const { return size_.load(); }

}  // namespace horovod_opt
