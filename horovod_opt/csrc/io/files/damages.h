// Damages: what became of records, and of ranges of bytes, on their way from storage.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "horovod_opt_io_abi.h"

namespace horovod_opt {
namespace io {

using Status = std::int32_t;  // or a positive errno
constexpr Status kGood = HIO_GOOD;
constexpr Status kChecksum = HIO_CHECKSUM;
constexpr Status kTruncated = HIO_TRUNCATED;
constexpr Status kChanged = HIO_CHANGED;

// The ranges of a chunk that could not be read. Lives in shared memory, all zeros at first. Written
// by the thread that reads the chunk, before the chunk is published.
//
// There is room for a few ranges: beyond that the last one grows over what lies between. A record
// with a checksum is judged by that, so only records without one are then found damaged which are
// not.
class Damages {
 public:
  // Ranges come in ascending order.
  void Add(std::int64_t begin, std::int64_t end, Status why) {
    if (begin >= end) return;
    const int count = count_;
    Range* const last = count > 0 ? &ranges_[count - 1] : nullptr;
    if (last != nullptr && (count == kRanges || (last->end == begin && last->why == why))) {
      last->end = end;
      return;
    }
    ranges_[count] = {begin, end, why};
    count_ = count + 1;
  }

  // Why bytes of [begin, end) are missing; kGood if none is.
  Status Of(std::int64_t begin, std::int64_t end) const {
    for (int i = 0; i < std::min<int>(count_, kRanges); ++i) {
      if (ranges_[i].begin < end && begin < ranges_[i].end) return ranges_[i].why;
    }
    return kGood;
  }

  void Clear() { count_ = 0; }
  bool empty() const { return count_ == 0; }

 private:
  static constexpr int kRanges = 8;

  struct Range {
    std::int64_t begin, end;  // in the chunk buffer
    Status why;
  };

  std::int32_t count_;
  Range ranges_[kRanges];
};

}  // namespace io
}  // namespace horovod_opt
