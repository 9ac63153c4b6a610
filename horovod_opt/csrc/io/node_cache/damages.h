// The ranges of a chunk that could not be read.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "horovod_opt/csrc/io/files/status.h"

namespace horovod_opt {
namespace io {

// Lives in shared memory, all zeros at first. Written by the thread that reads the chunk, before
// the chunk is published.
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

 private:
  static constexpr int kRanges = 8;

  struct Range {
    std::int64_t begin, end;  // in the slot
    Status why;
  };

  std::int32_t count_;
  Range ranges_[kRanges];
};

}  // namespace io
}  // namespace horovod_opt
