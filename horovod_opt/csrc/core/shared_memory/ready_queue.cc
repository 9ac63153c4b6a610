#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"

#include <stdexcept>
#include <string>

namespace horovod_opt {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
static_assert(ReadyQueue::kEntries > ReadyQueue::kNumbers, "invariant 2");

std::uint64_t Entry(std::uint64_t position, int bucket_id) {
  return (position + 1) * ReadyQueue::kNumbers + static_cast<std::uint64_t>(bucket_id);
}

}  // namespace

std::size_t ReadyQueue::Bytes() { return sizeof(ReadyQueue); }

bool ReadyQueue::Count(int bucket_id, int ranks) {
  if (bucket_id < 0 || bucket_id >= kNumbers) {
    throw std::out_of_range("bucket ID " + std::to_string(bucket_id) + " is not in 0.." +
                            std::to_string(kNumbers - 1));
  }
  const std::uint64_t calls = calls_[bucket_id].fetch_add(1) + 1;
  return calls % static_cast<std::uint64_t>(ranks) == 0;
}

void ReadyQueue::Append(int bucket_id, int all_but) {
  const std::uint64_t position = size_.fetch_add(1);
  entries_[position % kEntries].store(Entry(position, bucket_id));
  const futex::Sleepers performer = HasBit(all_but) ? Bit(all_but) : 0;
  const futex::Sleepers asleep = futex::kAll & ~performer & ~Spinning(bucket_id);
  // Invariant 5. Whoever has been woken for a later entry meanwhile has not found this one, and
  // sleeps again.
  appended_.Notify(size_.load() == position + 1 ? asleep : futex::kAll);
}

futex::Sleepers ReadyQueue::Spinning(int bucket_id) const {
  futex::Sleepers spinning = 0;
  for (int reader = 0; reader < kBits; ++reader) {
    if (spins_for_[reader].load() == bucket_id + 1) spinning |= Bit(reader);
  }
  return spinning;
}

bool ReadyQueue::Spin(int bucket_id, int reader) {
  if (!HasBit(reader)) return false;
  spins_for_[reader].store(bucket_id + 1);
  return true;
}

void ReadyQueue::EndSpin(int bucket_id, int reader, bool performed, std::uint64_t position) {
  if (!HasBit(reader)) return;
  int spins = bucket_id + 1;
  if (!spins_for_[reader].compare_exchange_strong(spins, 0)) return;
  if (!performed && size_.load() > position) appended_.Kick(Bit(reader));
}

bool ReadyQueue::Next(std::uint64_t position, int& bucket_id, const std::atomic<bool>& stop,
                      WaitCounts& counts, int reader) {
  std::uint64_t entry = 0;
  const auto is_there = [&] {
    entry = entries_[position % kEntries].load();
    return entry >= Entry(position, 0);
  };
  if (!appended_.Await(is_there, stop, counts, futex::kForever,
                       EventCount::Clock::time_point::max(), Bit(reader))) {
    return false;
  }
  if (entry >= Entry(position + 1, 0)) {
    throw std::logic_error("entry " + std::to_string(position) +
                           " of the ready queue was overwritten by entry " +
                           std::to_string(entry / kNumbers - 1) +
                           ": a rank reported a bucket again before it had performed it");
  }
  bucket_id = static_cast<int>(entry % kNumbers);
  return true;
}

void ReadyQueue::Kick() { appended_.Kick(); }

std::uint64_t ReadyQueue::Size() const { return size_.load(); }

}  // namespace horovod_opt
