// Scatter-gather list: the tensors of a bucket as one run of bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace horovod_opt {

// One tensor. in == nullptr: zeros; out == nullptr: the result is not wanted; in == out is allowed.
struct Segment {
  const void* in;
  void* out;
  std::int64_t bytes;
};

// Byte n of the bucket is in the segment that it falls into when they are laid end to end. Copies
// nothing before it is asked to.
class TensorView {
 public:
  explicit TensorView(std::vector<Segment> segments);

  const std::vector<Segment>& segments() const { return segments_; }
  std::int64_t Bytes() const { return ends_.empty() ? 0 : ends_.back(); }

  // Copies bytes [begin, end) of the inputs to `to`, zeros where there is no input.
  void Read(std::int64_t begin, std::int64_t end, char* to) const;

  // Where bytes [begin, end) lie in the input and in the output of the tensor that has all of them.
  // nullptr: it has no such memory, or no tensor has all of them.
  struct Run {
    const char* in;
    char* out;
  };
  Run Where(std::int64_t begin, std::int64_t end) const;

  // Copies `from` to bytes [begin, end) of the outputs, by copy(to, from, bytes).
  template <class Copy>
  void Write(std::int64_t begin, std::int64_t end, const char* from, const Copy& copy) const {
    ForEachPiece(begin, end, [&](const Segment& segment, auto offset, auto at, std::size_t bytes) {
      if (segment.out != nullptr) copy(static_cast<char*>(segment.out) + offset, from + at, bytes);
    });
  }

 private:
  // Calls use(segment, offset in it, offset from `begin`, bytes) for each part of [begin, end).
  template <class Use>
  void ForEachPiece(std::int64_t begin, std::int64_t end, const Use& use) const {
    auto segment = std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin();
    for (std::int64_t at = begin; at < end; ++segment) {
      const std::int64_t offset = at - (ends_[segment] - segments_[segment].bytes);
      const std::int64_t bytes = std::min(end, ends_[segment]) - at;
      if (bytes == 0) continue;  // null pointers are no arguments for memcpy, not even of 0 bytes
      use(segments_[segment], offset, at - begin, static_cast<std::size_t>(bytes));
      at += bytes;
    }
  }

  const std::vector<Segment> segments_;
  std::vector<std::int64_t> ends_;  // of each segment, in bytes from the start of the bucket
};

}  // namespace horovod_opt
