// Reduction of the bytes of one bucket by one rank: scale its contribution, add up, scale the
// result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/base/float_environment.h"
#include "horovod_opt/csrc/core/elements/arithmetic.h"
#include "horovod_opt/csrc/core/elements/streaming_copy.h"
#include "horovod_opt/csrc/core/elements/tensor_view.h"

namespace horovod_opt {

// Of one call. Offsets and lengths are bytes, in whole elements.
class BucketReduction {
 public:
  static constexpr std::int64_t kBlock = 16 << 10;  // bytes that stay in the first cache
  // Of more bytes the first have left a core's caches when the last are there, so results are
  // written past them.
  static constexpr std::int64_t kStreamed = 4 << 20;

  // std::invalid_argument if a segment is not a whole number of elements.
  BucketReduction(std::vector<Segment> segments, const Arithmetic& arithmetic, double prescale,
                  double postscale)
      : arithmetic_(arithmetic),
        prescale_(prescale),
        postscale_(postscale),
        data_(std::move(segments)) {
    for (const Segment& segment : data_.segments()) {
      if (segment.bytes < 0 || segment.bytes % element() != 0) {
        throw std::invalid_argument("a tensor of " + std::to_string(segment.bytes) +
                                    " bytes has no whole number of elements of " +
                                    std::to_string(element()) + " bytes");
      }
    }
  }

  std::int64_t Bytes() const { return data_.Bytes(); }
  const Arithmetic& arithmetic() const { return arithmetic_; }
  std::int64_t element() const { return static_cast<std::int64_t>(arithmetic_.element); }

  // Calls step(begin, end) for one block after the other.
  template <class Step>
  void ForEachBlock(std::int64_t begin, std::int64_t end, const Step& step) const {
    const std::int64_t block = kBlock / element() * element();
    for (; begin < end; begin += block) step(begin, std::min(begin + block, end));
  }

  void Contribute(std::int64_t begin, std::int64_t end, char* to) const {
    data_.Read(begin, end, to);
    Scale(arithmetic_, to, end - begin, prescale_);
  }

  // Where these bytes lie as they are contributed, and where their sums go: in the tensor that has
  // all of them, which is not scaled before. nullptr: nowhere as a whole.
  TensorView::Run Where(std::int64_t begin, std::int64_t end) const {
    const TensorView::Run run = data_.Where(begin, end);
    return {prescale_ == 1 ? run.in : nullptr, run.out};
  }

  // `out` is none of the inputs, or one of the first two.
  void Reduce(char* out, const std::vector<const void*>& inputs, std::int64_t bytes) const {
    if (inputs.size() == 1) {
      std::memcpy(out, inputs[0], static_cast<std::size_t>(bytes));
    } else {
      arithmetic_.reduce(out, inputs.data(), static_cast<int>(inputs.size()), bytes / element());
    }
  }

  void ScaleSum(char* sum, std::int64_t bytes) const { Scale(arithmetic_, sum, bytes, postscale_); }

  // `sum` may be where it belongs already.
  void Complete(std::int64_t begin, std::int64_t end, char* sum) const {
    ScaleSum(sum, end - begin);
    data_.Write(begin, end, sum, [](char* to, const char* from, std::size_t bytes) {
      if (to != from) std::memcpy(to, from, bytes);
    });
  }

  // Adds up all of it into the outputs, from what each rank has contributed. `block`: kBlock bytes.
  void AddUp(const std::vector<const char*>& rows, char* block) const {
    const FloatEnvironment environment;  // once, not for each block
    std::vector<const void*> inputs(rows.size());
    ForEachBlock(0, Bytes(), [&](std::int64_t begin, std::int64_t end) {
      for (std::size_t rank = 0; rank < rows.size(); ++rank) inputs[rank] = rows[rank] + begin;
      Reduce(block, inputs, end - begin);
      Complete(begin, end, block);
    });
  }

  // What another rank has finished.
  void Write(std::int64_t begin, std::int64_t end, const char* from) const {
    if (Bytes() > kStreamed) {
      data_.Write(begin, end, from, StreamingCopy);
    } else {
      data_.Write(begin, end, from, std::memcpy);
    }
  }

 private:
  const Arithmetic arithmetic_;
  const double prescale_;
  const double postscale_;
  const TensorView data_;
};

}  // namespace horovod_opt
