// Nonblocking collectives over one rank of each group, which have been begun and nobody waits for;
// and the memory for their messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod_opt {

// Used again and again: fresh memory costs a page fault for each 4 KiB, as much as copying them.
// For one thread.
class BufferPool {
 public:
  struct Buffer {
    std::unique_ptr<char[]> data;  // nothing is in it
    std::int64_t bytes = 0;
  };

  // `most`: bytes that users should not take more than at a time.
  explicit BufferPool(std::int64_t most) : most_(most) {}

  // So many bytes more are not too many.
  bool HasRoom(std::int64_t bytes) const { return bytes_in_use_ + bytes <= most_; }

  // Of at least so many bytes.
  Buffer Take(std::int64_t bytes) {
    Buffer buffer = Find(bytes);
    bytes_in_use_ += buffer.bytes;
    return buffer;
  }

  void Return(Buffer buffer) {
    bytes_in_use_ -= buffer.bytes;
    if (buffer.data != nullptr) free_.push_back(std::move(buffer));
  }

 private:
  Buffer Find(std::int64_t bytes) {
    const auto fits = [&](const Buffer& buffer) { return buffer.bytes >= bytes; };
    const auto best = std::find_if(free_.rbegin(), free_.rend(), fits);
    if (best == free_.rend()) {
      return {std::unique_ptr<char[]>(new char[static_cast<std::size_t>(bytes)]), bytes};
    }
    std::swap(*best, free_.back());
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }

  const std::int64_t most_;
  std::int64_t bytes_in_use_ = 0;
  std::vector<Buffer> free_;  // used last at the end
};

// For one thread.
class NonblockingCollective {
 public:
  virtual ~NonblockingCollective() = default;

  // Does what can be done at once. True if it has ended.
  virtual bool Advance(Transport& transport, BufferPool& buffers) = 0;
};

}  // namespace horovod_opt
