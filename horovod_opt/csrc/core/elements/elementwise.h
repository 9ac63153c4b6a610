// Elementwise reductions of what several ranks contribute, and scaling, in loops that compilers
// vectorize, whatever the floating-point environment of the calling thread.
//
// Operations commute, bit for bit: by IEEE 754 alone the least of -0 and +0 may be either of them,
// and so may the sum of two NaNs. The last needs Commute(), for members of an exchange that each
// compute `own op other`; ranks that compute the same in the same order need it not, and it takes
// time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "horovod_opt/csrc/core/base/bfloat16.h"
#include "horovod_opt/csrc/core/base/float16.h"
#include "horovod_opt/csrc/core/base/float_environment.h"

namespace horovod_opt {
namespace elementwise {

template <class T>
constexpr bool kIsShort = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

// What an element is computed as.
template <class T>
using Computed = std::conditional_t<kIsShort<T>, float, T>;

// The bits of a float or a double.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class T>
Bits<T> ToBits(T value) {
  Bits<T> bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}
template <class T>
T FromBits(Bits<T> bits) {
  T value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Of<T>(a, b): of two elements of type T, as what they are computed as. A short type has one NaN
// alone, and gets it from any.

// `result` is the processor's, of the operands `a` and `b`. If both are NaNs, it is one of them, and
// which one is the compiler's choice, which may differ between a loop of vectors and what remains:
// so it becomes the one with the bits of both.
template <class T>
Computed<T> JoinNans(Computed<T> result, Computed<T> a, Computed<T> b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool both = (a != a) & (b != b);
    return FromBits<T>(ToBits(result) | (both ? ToBits(a) | ToBits(b) : 0));
  } else {
    return result;
  }
}

// Of the least or the greatest, `result`, which is right if neither operand is a NaN: a NaN wins,
// and of two the one with the bits of both.
template <class T>
Computed<T> PreferNan(Bits<Computed<T>> result, Computed<T> a, Computed<T> b) {
  using Value = Computed<T>;
  if constexpr (kIsShort<T>) {
    return FromBits<Value>(result | (__builtin_isunordered(a, b) ? ~Bits<Value>{0} : 0));
  } else {
    const Bits<Value> nan = (a != a ? ToBits(a) : 0) | (b != b ? ToBits(b) : 0);
    return FromBits<Value>(nan != 0 ? nan : result);
  }
}

struct Sum {
  static constexpr bool kIsFastWithoutNans = false;
  template <class T>
  static Computed<T> Of(Computed<T> a, Computed<T> b) {
    return static_cast<Computed<T>>(a + b);
  }
};
struct Product {
  static constexpr bool kIsFastWithoutNans = false;
  template <class T>
  static Computed<T> Of(Computed<T> a, Computed<T> b) {
    return static_cast<Computed<T>>(a * b);
  }
};
// -0 is less than +0.
struct Min {
  static constexpr bool kIsFastWithoutNans = true;
  template <class T>
  static Computed<T> Of(Computed<T> a, Computed<T> b) {
    if constexpr (std::is_floating_point_v<Computed<T>>) {
      return PreferNan<T>(OfNumbers(a, b), a, b);
    } else {
      return std::min(a, b);
    }
  }
  // Both are the same number, unless they are zeros.
  template <class Value>
  static Bits<Value> OfNumbers(Value a, Value b) {
    return ToBits(b < a ? b : a) | ToBits(a < b ? a : b);
  }
};
struct Max {
  static constexpr bool kIsFastWithoutNans = true;
  template <class T>
  static Computed<T> Of(Computed<T> a, Computed<T> b) {
    if constexpr (std::is_floating_point_v<Computed<T>>) {
      return PreferNan<T>(OfNumbers(a, b), a, b);
    } else {
      return std::max(a, b);
    }
  }
  template <class Value>
  static Bits<Value> OfNumbers(Value a, Value b) {
    return ToBits(a < b ? b : a) & ToBits(b < a ? a : b);
  }
};

constexpr std::int64_t kPart = 1024;  // elements whose floats stay in the first cache

template <class T>
bool AnyNan(const T* first, const T* second, std::int64_t count) {
  Bits<T> any = 0;
  for (std::int64_t i = 0; i < count; ++i) any |= __builtin_isunordered(first[i], second[i]);
  return any != 0;
}

// As Reduce() below, of two inputs.
template <class T, class Op>
void ReducePair(T* result, const T* first, const T* second, std::int64_t count) {
  const auto reduce = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      result[i] = static_cast<T>(Op::template Of<T>(first[i], second[i]));
    }
  };
  if constexpr (std::is_floating_point_v<T>) {
    if constexpr (Op::kIsFastWithoutNans) {
      for (std::int64_t begin = 0; begin < count; begin += kPart) {
        const std::int64_t end = std::min(begin + kPart, count);
        if (AnyNan(first + begin, second + begin, end - begin)) {
          reduce(begin, end);
          continue;
        }
        for (std::int64_t i = begin; i < end; ++i) {
          result[i] = FromBits<T>(Op::OfNumbers(first[i], second[i]));
        }
      }
      return;
    }
  }
  reduce(0, count);
}

template <class Op>
void ReduceFloat16(Float16* result, const void* const* inputs, int number, std::int64_t count) {
  const Float16Conversion& conversion = Float16Conversion::Fastest();
  alignas(64) float results[kPart], others[kPart];
  for (std::int64_t begin = 0; begin < count; begin += kPart) {
    const std::int64_t part = std::min(kPart, count - begin);
    conversion.widen(static_cast<const Float16*>(inputs[0]) + begin, results, part);
    for (int n = 1; n < number; ++n) {
      if (n > 1) conversion.widen(result + begin, results, part);
      conversion.widen(static_cast<const Float16*>(inputs[n]) + begin, others, part);
      for (std::int64_t i = 0; i < part; ++i) {
        results[i] = Op::template Of<Float16>(results[i], others[i]);
      }
      conversion.narrow(results, result + begin, part);
    }
  }
}

// out[i] = ((inputs[0][i] op inputs[1][i]) op inputs[2][i]) ..., of two inputs at least. `out` may
// be one of the first two.
template <class T, class Op>
void Reduce(void* out, const void* const* inputs, int number, std::int64_t count) {
  const FloatEnvironment environment;
  T* const result = static_cast<T*>(out);
  if constexpr (std::is_same_v<T, Float16>) {
    ReduceFloat16<Op>(result, inputs, number, count);
  } else {
    const auto input = [&](int n) { return static_cast<const T*>(inputs[n]); };
    ReducePair<T, Op>(result, input(0), input(1), count);
    for (int n = 2; n < number; ++n) ReducePair<T, Op>(result, result, input(n), count);
  }
}

// The same of two inputs, and of two NaNs also the same in either order.
template <class T, class Op>
void Commute(void* out, const void* const* inputs, int number, std::int64_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    const FloatEnvironment environment;
    T* const result = static_cast<T*>(out);
    const T* const first = static_cast<const T*>(inputs[0]);
    const T* const second = static_cast<const T*>(inputs[1]);
    for (std::int64_t i = 0; i < count; ++i) {
      result[i] = JoinNans<T>(Op::template Of<T>(first[i], second[i]), first[i], second[i]);
    }
  } else {
    Reduce<T, Op>(out, inputs, number, count);
  }
}

// As Reduce(), of a short type, but what is between is a float: the result is rounded to T once.
template <class T, class Op>
void ReduceRoundingOnce(void* out, const void* const* inputs, int number, std::int64_t count) {
  if (number == 2) return Reduce<T, Op>(out, inputs, number, count);
  const FloatEnvironment environment;
  float results[kPart];
  for (std::int64_t begin = 0; begin < count; begin += kPart) {
    const std::int64_t part = std::min(kPart, count - begin);
    const T* const first = static_cast<const T*>(inputs[0]) + begin;
    const T* const second = static_cast<const T*>(inputs[1]) + begin;
    for (std::int64_t i = 0; i < part; ++i) {
      results[i] = Op::template Of<T>(first[i], second[i]);
    }
    for (int n = 2; n < number; ++n) {
      const T* const next = static_cast<const T*>(inputs[n]) + begin;
      for (std::int64_t i = 0; i < part; ++i) {
        results[i] = Op::template Of<T>(results[i], next[i]);
      }
    }
    T* const result = static_cast<T*>(out) + begin;
    for (std::int64_t i = 0; i < part; ++i) result[i] = static_cast<T>(results[i]);
  }
}

// Multiplies each by `factor`, as a Factor, and rounds the product to T; integers towards zero.
template <class T, class Factor>
void Scale(void* data, std::int64_t count, double factor) {
  const FloatEnvironment environment;
  T* const values = static_cast<T*>(data);
  const Factor by = static_cast<Factor>(factor);
  if constexpr (std::is_same_v<T, Float16>) {
    const Float16Conversion& conversion = Float16Conversion::Fastest();
    alignas(64) float products[kPart];
    for (std::int64_t begin = 0; begin < count; begin += kPart) {
      const std::int64_t part = std::min(kPart, count - begin);
      conversion.widen(values + begin, products, part);
      for (std::int64_t i = 0; i < part; ++i) products[i] *= by;
      conversion.narrow(products, values + begin, part);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<T>(by * static_cast<Computed<T>>(values[i]));
    }
  }
}

}  // namespace elementwise
}  // namespace horovod_opt
