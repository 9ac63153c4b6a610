// Scatter-gather list: the tensors of a bucket as one run of bytes.
#pragma once

#include <cstdint>
#include <utility>
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

  // Where bytes [begin, end) lie in the input and in the output of a tensor that has all of them,
  // and both; else two times nullptr.
  std::pair<const char*, char*> Where(std::int64_t begin, std::int64_t end) const;

  // Copies `from` to bytes [begin, end) of the outputs.
  void Write(std::int64_t begin, std::int64_t end, const char* from) const;

 private:
  template <class Copy>
  void ForEachPiece(std::int64_t begin, std::int64_t end, const Copy& copy) const;

  const std::vector<Segment> segments_;
  std::vector<std::int64_t> ends_;  // of each segment, in bytes from the start of the bucket
};

}  // namespace horovod_opt
