#include "horovod_opt/csrc/core/shm/tensor_view.h"

#include <algorithm>
#include <cstring>

namespace horovod_opt {

TensorView::TensorView(const std::vector<Segment>& segments) : segments_(segments) {
  ends_.reserve(segments.size());
  std::int64_t end = 0;
  for (const Segment& segment : segments) ends_.push_back(end += segment.bytes);
}

// Calls copy(segment, offset in it, offset from `begin`, bytes) for each part of [begin, end).
template <class Copy>
void TensorView::ForEachPiece(std::int64_t begin, std::int64_t end, const Copy& copy) const {
  auto segment = std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin();
  for (std::int64_t at = begin; at < end; ++segment) {
    const std::int64_t offset = at - (ends_[segment] - segments_[segment].bytes);
    const std::int64_t bytes = std::min(end, ends_[segment]) - at;
    if (bytes == 0) continue;  // null pointers are no arguments for memcpy, not even of 0 bytes
    copy(segments_[segment], offset, at - begin, static_cast<std::size_t>(bytes));
    at += bytes;
  }
}

void TensorView::Read(std::int64_t begin, std::int64_t end, char* to) const {
  ForEachPiece(begin, end, [&](const Segment& segment, auto offset, auto at, std::size_t bytes) {
    if (segment.in == nullptr) {
      std::memset(to + at, 0, bytes);
    } else {
      std::memcpy(to + at, static_cast<const char*>(segment.in) + offset, bytes);
    }
  });
}

void TensorView::Write(std::int64_t begin, std::int64_t end, const char* from) const {
  ForEachPiece(begin, end, [&](const Segment& segment, auto offset, auto at, std::size_t bytes) {
    if (segment.out == nullptr) return;
    std::memcpy(static_cast<char*>(segment.out) + offset, from + at, bytes);
  });
}

}  // namespace horovod_opt
