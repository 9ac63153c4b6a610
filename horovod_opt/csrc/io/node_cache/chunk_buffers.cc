#include "horovod_opt/csrc/io/node_cache/chunk_buffers.h"

#include <algorithm>
#include <utility>

#include "horovod_opt/csrc/io/node_cache/node_cache_memory.h"

namespace horovod_opt {
namespace io {

Slots::Slots(std::int64_t count, std::int64_t memory, Punch punch)
    : slots_(static_cast<std::size_t>(count)), memory_(memory), punch_(std::move(punch)) {}

std::int64_t Slots::Take(std::int64_t bytes) {
  if (live_ + bytes > memory_) return -1;
  const std::int64_t pages = WholePages(bytes);
  const std::int64_t taken = Choose(pages);
  if (taken < 0) return -1;
  Slot& slot = slots_[static_cast<std::size_t>(taken)];
  slot.live = bytes;
  live_ += bytes;
  const std::int64_t more = std::max<std::int64_t>(pages - slot.used, 0);
  while (used_ + more > memory_) {
    const std::int64_t victim = MostSpare();
    if (victim < 0) break;  // only live chunks are left: less than a page each too much
    Shrink(victim);
  }
  used_ += more;
  slot.used += more;
  return taken;
}

void Slots::Free(std::int64_t slot) {
  Slot& freed = slots_[static_cast<std::size_t>(slot)];
  live_ -= freed.live;
  freed.live = -1;
}

// The one that fits best, or the largest of those that are too small.
std::int64_t Slots::Choose(std::int64_t pages) const {
  std::int64_t best = -1;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].live >= 0) continue;
    const std::int64_t used = slots_[i].used;
    const std::int64_t found = best < 0 ? -1 : slots_[static_cast<std::size_t>(best)].used;
    const bool better = found >= pages ? used >= pages && used < found : used > found;
    if (better) best = static_cast<std::int64_t>(i);
  }
  return best;
}

std::int64_t Slots::Spare(const Slot& slot) const {
  return slot.used - (slot.live < 0 ? 0 : WholePages(slot.live));
}

// -1 if there is no spare memory.
std::int64_t Slots::MostSpare() const {
  std::int64_t found = -1;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (Spare(slots_[i]) > most) {
      most = Spare(slots_[i]);
      found = static_cast<std::int64_t>(i);
    }
  }
  return found;
}

void Slots::Shrink(std::int64_t slot) {
  Slot& shrunk = slots_[static_cast<std::size_t>(slot)];
  const std::int64_t spare = Spare(shrunk);
  punch_(slot, shrunk.used - spare, shrunk.used);
  used_ -= spare;
  shrunk.used -= spare;
}

}  // namespace io
}  // namespace horovod_opt
