// Nonblocking collectives over one rank of each group, which have been begun and nobody waits for;
// and the memory for their messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/network/transport.h"

namespace horovod_opt {

// Used again and again: fresh memory costs a page fault for each 4 KiB, as much as copying them.
// Room for a buffer is a power of two, so that one that is asked for a little more each time is
// allocated anew only when it has doubled. (What nobody has touched of it costs nothing.) In all, a
// pool never has room for more than twice what was in use at once, at the most: what was used last
// the longest time ago is freed first.
// For one thread.
class BufferPool {
 public:
  struct Buffer {
    std::unique_ptr<char[]> data;  // nothing is in it
    std::int64_t bytes = 0;        // that were asked for
    std::int64_t room = 0;         // that there are
  };

  // `most`: bytes that users should not take more than at a time.
  explicit BufferPool(std::int64_t most) : most_(most) {}

  // So many bytes more are not too many.
  bool HasRoom(std::int64_t bytes) const { return bytes_in_use_ + bytes <= most_; }

  Buffer Take(std::int64_t bytes) {
    std::int64_t room = kLeast;
    while (room < bytes) room *= 2;
    Buffer buffer = Find(room);
    buffer.bytes = bytes;
    bytes_in_use_ += bytes;
    room_in_use_ += room;
    return buffer;
  }

  // Nothing if it is none, as after it has been moved away.
  void Return(Buffer buffer) {
    if (buffer.data == nullptr) return;
    bytes_in_use_ -= buffer.bytes;
    room_in_use_ -= buffer.room;
    free_.push_back(std::move(buffer));
  }

  // That all buffers have, in use or not.
  std::int64_t room() const { return room_; }

 private:
  static constexpr std::int64_t kLeast = 4 << 10;  // bytes: a page

  Buffer Find(std::int64_t room) {
    const auto fits = [&](const Buffer& buffer) { return buffer.room == room; };
    const auto last = std::find_if(free_.rbegin(), free_.rend(), fits);
    if (last != free_.rend()) {
      Buffer buffer = std::move(*last);
      free_.erase(std::next(last).base());
      return buffer;
    }
    const std::int64_t most = std::max(most_room_in_use_, room_in_use_ + room);
    while (room_ + room > 2 * most) {
      room_ -= free_.front().room;
      free_.erase(free_.begin());
    }
    Buffer buffer{std::unique_ptr<char[]>(new char[static_cast<std::size_t>(room)]), 0, room};
    most_room_in_use_ = most;
    room_ += room;
    return buffer;
  }

  const std::int64_t most_;
  std::int64_t bytes_in_use_ = 0, room_in_use_ = 0, most_room_in_use_ = 0, room_ = 0;
  std::vector<Buffer> free_;  // used last at the end
};

// For one thread.
class NonblockingCollective {
 public:
  virtual ~NonblockingCollective() = default;

  // Does what can be done at once. True if it has ended.
  virtual bool Advance(Transport& transport, BufferPool& buffers) = 0;

  // How far it has come.
  virtual void DumpState(StatePage& page) const = 0;
};

}  // namespace horovod_opt
