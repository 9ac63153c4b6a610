#include "horovod_opt/csrc/core/elements/tensor_view.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace horovod_opt {

TensorView::TensorView(std::vector<Segment> segments) : segments_(std::move(segments)) {
  ends_.reserve(segments_.size());
  std::int64_t end = 0;
  for (const Segment& segment : segments_) ends_.push_back(end += segment.bytes);
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

std::pair<const char*, char*> TensorView::Where(std::int64_t begin, std::int64_t end) const {
  std::pair<const char*, char*> where(nullptr, nullptr);
  ForEachPiece(begin, end, [&](const Segment& segment, auto offset, auto at, std::size_t bytes) {
    const bool is_all = at == 0 && static_cast<std::int64_t>(bytes) == end - begin;
    if (!is_all || segment.in == nullptr || segment.out == nullptr) return;
    where = {static_cast<const char*>(segment.in) + offset,
             static_cast<char*>(segment.out) + offset};
  });
  return where;
}

void TensorView::Write(std::int64_t begin, std::int64_t end, const char* from) const {
  ForEachPiece(begin, end, [&](const Segment& segment, auto offset, auto at, std::size_t bytes) {
    if (segment.out == nullptr) return;
    std::memcpy(static_cast<char*>(segment.out) + offset, from + at, bytes);
  });
}

}  // namespace horovod_opt
