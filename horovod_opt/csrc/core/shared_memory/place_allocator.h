// First fit: which parts of a memory are in use. All ranks that ask for the same in the same order
// get the same.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace horovod_opt {

class PlaceAllocator {
 public:
  explicit PlaceAllocator(std::int64_t bytes) {
    if (bytes > 0) free_[0] = bytes;
  }

  // The first byte of `bytes` bytes that are free; -1: there are not so many in a row.
  std::int64_t Allocate(std::int64_t bytes) {
    for (const auto [place, room] : free_) {
      if (room < bytes) continue;
      free_.erase(place);
      if (room > bytes) free_[place + bytes] = room - bytes;
      return place;
    }
    return -1;
  }
  // What Allocate(bytes) has returned.
  void Free(std::int64_t place, std::int64_t bytes) {
    auto own = free_.emplace(place, bytes).first;
    const auto next = std::next(own);
    if (next != free_.end() && place + bytes == next->first) {
      own->second += next->second;
      free_.erase(next);
    }
    if (own == free_.begin()) return;
    const auto before = std::prev(own);
    if (before->first + before->second != place) return;
    before->second += own->second;
    free_.erase(own);
  }

 private:
  std::map<std::int64_t, std::int64_t> free_;  // first byte -> bytes; no two touch each other
};

}  // namespace horovod_opt
