// Best-fit allocation of the node cache's chunk buffers: which are free, and how much memory all of
// them use. The reader's alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace horovod_opt {
namespace io {

// Each chunk buffer has addresses for the largest chunk, but only the pages that were ever written
// take memory, and they stay when the chunk buffer is free: whoever takes it next has no page
// faults. So a chunk buffer that fits is preferred; and what all chunk buffers use is never more
// than `memory`, plus less than a page for each live chunk: before it would be, free chunk buffers
// and what others have beyond their chunks are punched.
class ChunkBuffers {
 public:
  using Punch = std::function<void(std::int64_t buffer, std::int64_t begin, std::int64_t end)>;

  ChunkBuffers(std::int64_t count, std::int64_t memory, Punch punch);

  // A chunk buffer for so many bytes, or -1: no chunk buffer is free, or live chunks leave too
  // little memory.
  std::int64_t Take(std::int64_t bytes);
  void Free(std::int64_t buffer);

  std::int64_t live_bytes() const { return live_; }
  std::int64_t used_bytes() const { return used_; }  // whole pages, of live and of free ones

 private:
  struct Buffer {
    std::int64_t live = -1;  // bytes of its chunk; negative: free
    std::int64_t used = 0;
  };

  std::int64_t Choose(std::int64_t pages) const;
  std::int64_t Spare(const Buffer& buffer) const;
  std::int64_t MostSpare() const;
  void Shrink(std::int64_t buffer);

  std::vector<Buffer> buffers_;
  const std::int64_t memory_;
  const Punch punch_;
  std::int64_t live_ = 0;
  std::int64_t used_ = 0;
};

}  // namespace io
}  // namespace horovod_opt
