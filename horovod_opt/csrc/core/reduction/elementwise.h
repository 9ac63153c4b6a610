// Elementwise reductions of what several ranks contribute, in loops that compilers vectorize.
#pragma once

#include <algorithm>
#include <cstdint>

namespace horovod_opt {
namespace elementwise {

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Product {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a * b);
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

// out[i] = ((inputs[0][i] op inputs[1][i]) op inputs[2][i]) ..., of two inputs at least. `out` may
// be one of the first two.
template <class T, class Op>
void Reduce(void* out, const void* const* inputs, int number, std::int64_t count) {
  T* const result = static_cast<T*>(out);
  const T* const first = static_cast<const T*>(inputs[0]);
  const T* const second = static_cast<const T*>(inputs[1]);
  for (std::int64_t i = 0; i < count; ++i) result[i] = Op()(first[i], second[i]);
  for (int n = 2; n < number; ++n) {
    const T* const next = static_cast<const T*>(inputs[n]);
    for (std::int64_t i = 0; i < count; ++i) result[i] = Op()(result[i], next[i]);
  }
}

// The same, but what is between is Wide: the result is rounded to T once.
template <class T, class Op, class Wide>
void ReduceRoundingOnce(void* out, const void* const* inputs, int number, std::int64_t count) {
  if (number == 2) return Reduce<T, Op>(out, inputs, number, count);
  constexpr std::int64_t kPart = 1024;  // whose Wide results stay in the first cache
  Wide results[kPart];
  for (std::int64_t begin = 0; begin < count; begin += kPart) {
    const std::int64_t part = std::min(kPart, count - begin);
    const T* const first = static_cast<const T*>(inputs[0]) + begin;
    const T* const second = static_cast<const T*>(inputs[1]) + begin;
    for (std::int64_t i = 0; i < part; ++i) {
      results[i] = Op()(static_cast<Wide>(first[i]), static_cast<Wide>(second[i]));
    }
    for (int n = 2; n < number; ++n) {
      const T* const next = static_cast<const T*>(inputs[n]) + begin;
      for (std::int64_t i = 0; i < part; ++i) {
        results[i] = Op()(results[i], static_cast<Wide>(next[i]));
      }
    }
    T* const result = static_cast<T*>(out) + begin;
    for (std::int64_t i = 0; i < part; ++i) result[i] = static_cast<T>(results[i]);
  }
}

}  // namespace elementwise
}  // namespace horovod_opt
