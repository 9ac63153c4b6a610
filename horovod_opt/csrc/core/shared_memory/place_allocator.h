// Which parts of a memory are in use: first fit, so that all ranks that ask for the same in the
// same order get the same.
#pragma once

#include <cstdint>
#include <map>

namespace horovod_opt {

class PlaceAllocator {
 public:
  explicit PlaceAllocator(std::int64_t bytes) {
    if (bytes > 0) free_[0] = bytes;
  }

  // The first byte of `bytes` bytes that are free; -1: there are not so many in a row.
  std::int64_t Allocate(std::int64_t bytes);
  // What Allocate(bytes) has returned.
  void Free(std::int64_t place, std::int64_t bytes);

 private:
  std::map<std::int64_t, std::int64_t> free_;  // first byte -> bytes; no two touch each other
};

}  // namespace horovod_opt
