// What one rank does to the bytes of one bucket: scale its contribution, add up, scale the result.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/shm/tensor_view.h"

namespace horovod_opt {

// What is done to elements, for one element type and reduction. `count` is in elements.
struct Arithmetic {
  std::size_t element;  // bytes
  // out = ((inputs[0] op inputs[1]) op inputs[2]) ..., of two inputs at least; `out` may be one of
  // the first two.
  void (*reduce)(void* out, const void* const* inputs, int number, std::int64_t count);
  void (*scale)(void* data, std::int64_t count, double factor);
};

// Reduces `count` elements in place over the groups: over the ranks with the same number in theirs.
// False if they cannot be reached any more. Empty: there is one group.
using CrossReduce = std::function<bool(void* data, std::int64_t count)>;

// Of one call. Offsets and lengths are bytes, in whole elements.
class BucketReduction {
 public:
  static constexpr std::int64_t kBlock = 16 << 10;  // bytes that stay in the first cache

  // std::invalid_argument if a segment is not a whole number of elements.
  BucketReduction(const std::vector<Segment>& segments, const Arithmetic& arithmetic,
                  double prescale, double postscale)
      : data_(segments), arithmetic_(arithmetic), prescale_(prescale), postscale_(postscale) {
    for (const Segment& segment : segments) {
      if (segment.bytes < 0 || segment.bytes % element() != 0) {
        throw std::invalid_argument("a tensor of " + std::to_string(segment.bytes) +
                                    " bytes has no whole number of elements of " +
                                    std::to_string(element()) + " bytes");
      }
    }
  }

  std::int64_t Bytes() const { return data_.Bytes(); }
  std::int64_t element() const { return static_cast<std::int64_t>(arithmetic_.element); }

  // Calls step(begin, end) for one block after the other.
  template <class Step>
  void ForEachBlock(std::int64_t begin, std::int64_t end, const Step& step) const {
    const std::int64_t block = kBlock / element() * element();
    for (; begin < end; begin += block) step(begin, std::min(begin + block, end));
  }

  void Contribute(std::int64_t begin, std::int64_t end, char* to) const {
    data_.Read(begin, end, to);
    Scale(to, end - begin, prescale_);
  }

  // `out` is none of the inputs.
  void Reduce(char* out, const std::vector<const void*>& inputs, std::int64_t bytes) const {
    if (inputs.size() == 1) {
      std::memcpy(out, inputs[0], static_cast<std::size_t>(bytes));
    } else {
      arithmetic_.reduce(out, inputs.data(), static_cast<int>(inputs.size()), bytes / element());
    }
  }

  void ScaleSum(char* sum, std::int64_t bytes) const { Scale(sum, bytes, postscale_); }

  void Complete(std::int64_t begin, std::int64_t end, char* sum) const {
    ScaleSum(sum, end - begin);
    Write(begin, end, sum);
  }

  // What another rank has finished.
  void Write(std::int64_t begin, std::int64_t end, const char* from) const {
    data_.Write(begin, end, from);
  }

 private:
  void Scale(char* values, std::int64_t bytes, double factor) const {
    if (factor != 1) arithmetic_.scale(values, bytes / element(), factor);
  }

  const TensorView data_;
  const Arithmetic& arithmetic_;
  const double prescale_;
  const double postscale_;
};

}  // namespace horovod_opt
