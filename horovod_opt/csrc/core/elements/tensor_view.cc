#include "horovod_opt/csrc/core/elements/tensor_view.h"

#include <cstring>
#include <utility>

namespace horovod_opt {

TensorView::TensorView(std::vector<Segment> segments) : segments_(std::move(segments)) {
  ends_.reserve(segments_.size());
  std::int64_t end = 0;
  for (const Segment& segment : segments_) ends_.push_back(end += segment.bytes);
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

TensorView::Run TensorView::Where(std::int64_t begin, std::int64_t end) const {
  Run run = {nullptr, nullptr};
  ForEachPiece(begin, end, [&](const Segment& segment, auto offset, auto at, std::size_t bytes) {
    if (at != 0 || static_cast<std::int64_t>(bytes) != end - begin) return;
    if (segment.in != nullptr) run.in = static_cast<const char*>(segment.in) + offset;
    if (segment.out != nullptr) run.out = static_cast<char*>(segment.out) + offset;
  });
  return run;
}

}  // namespace horovod_opt
