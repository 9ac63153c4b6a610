#include "horovod_opt/csrc/io/node_cache/chunk_buffers.h"

#include <algorithm>
#include <utility>

#include "horovod_opt/csrc/io/node_cache/node_cache_memory.h"

namespace horovod_opt {
namespace io {

ChunkBuffers::ChunkBuffers(std::int64_t count, std::int64_t memory, Punch punch)
    : buffers_(static_cast<std::size_t>(count)), memory_(memory), punch_(std::move(punch)) {}

std::int64_t ChunkBuffers::Take(std::int64_t bytes) {
  if (live_ + bytes > memory_) return -1;
  const std::int64_t pages = WholePages(bytes);
  const std::int64_t number = Choose(pages);
  if (number < 0) return -1;
  Buffer& buffer = buffers_[static_cast<std::size_t>(number)];
  buffer.live = bytes;
  live_ += bytes;
  const std::int64_t more = std::max<std::int64_t>(pages - buffer.used, 0);
  while (used_ + more > memory_) {
    const std::int64_t victim = MostSpare();
    if (victim < 0) break;  // only live chunks are left: less than a page each too much
    Shrink(victim);
  }
  used_ += more;
  buffer.used += more;
  return number;
}

void ChunkBuffers::Free(std::int64_t buffer) {
  Buffer& free_buffer = buffers_[static_cast<std::size_t>(buffer)];
  live_ -= free_buffer.live;
  free_buffer.live = -1;
}

// The one that fits best, or the largest of those that are too small.
std::int64_t ChunkBuffers::Choose(std::int64_t pages) const {
  std::int64_t best = -1;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].live >= 0) continue;
    const std::int64_t used = buffers_[i].used;
    const std::int64_t best_used = best < 0 ? -1 : buffers_[static_cast<std::size_t>(best)].used;
    const bool better = best_used >= pages ? used >= pages && used < best_used : used > best_used;
    if (better) best = static_cast<std::int64_t>(i);
  }
  return best;
}

std::int64_t ChunkBuffers::Spare(const Buffer& buffer) const {
  return buffer.used - (buffer.live < 0 ? 0 : WholePages(buffer.live));
}

// -1 if there is no spare memory.
std::int64_t ChunkBuffers::MostSpare() const {
  std::int64_t widest = -1;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (Spare(buffers_[i]) > most) {
      most = Spare(buffers_[i]);
      widest = static_cast<std::int64_t>(i);
    }
  }
  return widest;
}

void ChunkBuffers::Shrink(std::int64_t buffer) {
  Buffer& large = buffers_[static_cast<std::size_t>(buffer)];
  const std::int64_t spare = Spare(large);
  punch_(buffer, large.used - spare, large.used);
  used_ -= spare;
  large.used -= spare;
}

}  // namespace io
}  // namespace horovod_opt
