#include "horovod_opt/csrc/binding/topo/arithmetic.h"

#include <algorithm>
#include <stdexcept>

#include "horovod/common/half.h"
#include "horovod/common/ops/collective_operations.h"
#include "horovod_opt_abi.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::ReduceOp;

// Plans name types and operations by the numbers of graph_analysis/reductions.py.
#define CHECK(name, number, bytes) \
  static_assert(DataType::HOROVOD_##name == number, "upstream has another number");
HOROVOD_OPT_DTYPES(CHECK)
#undef CHECK
#define CHECK(name, number, words) \
  static_assert(ReduceOp::name == number, "upstream has another number");
HOROVOD_OPT_REDUCE_OPS(CHECK)
#undef CHECK

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

template <class T, class Factor>
struct Native {
  static constexpr std::size_t kBytes = sizeof(T);

  template <class Op>
  static void Reduce(void* accumulate, const void* other, std::int64_t count) {
    T* a = static_cast<T*>(accumulate);
    const T* b = static_cast<const T*>(other);
    for (std::int64_t i = 0; i < count; ++i) a[i] = Op()(a[i], b[i]);
  }

  static void Scale(void* data, std::int64_t count, double factor) {
    T* values = static_cast<T*>(data);
    horovod::common::ScaleBufferCPUImpl(static_cast<const T*>(values), values, count,
                                        static_cast<Factor>(factor));
  }
};

struct Half : Native<unsigned short, float> {
  template <class Op>
  static void Reduce(void* accumulate, const void* other, std::int64_t count) {
    auto* a = static_cast<unsigned short*>(accumulate);
    auto* b = static_cast<const unsigned short*>(other);
    for (std::int64_t i = 0; i < count; ++i) {
      float x, y;
      horovod::common::HalfBits2Float(a + i, &x);
      horovod::common::HalfBits2Float(b + i, &y);
      x = Op()(x, y);
      horovod::common::Float2HalfBits(&x, a + i);
    }
  }
};

template <class Element>
Arithmetic Of(ReduceOp reduce_op) {
  switch (reduce_op) {
    case ReduceOp::AVERAGE:  // averaging is scaling
    case ReduceOp::SUM:
      return {Element::kBytes, Element::template Reduce<Sum>, Element::Scale};
    case ReduceOp::MIN:
      return {Element::kBytes, Element::template Reduce<Min>, Element::Scale};
    case ReduceOp::MAX:
      return {Element::kBytes, Element::template Reduce<Max>, Element::Scale};
    case ReduceOp::PRODUCT:
      return {Element::kBytes, Element::template Reduce<Product>, Element::Scale};
    default:
      throw std::logic_error("no elementwise reduction");
  }
}

}  // namespace

Arithmetic ArithmeticOf(DataType dtype, ReduceOp reduce_op) {
  switch (dtype) {
    case DataType::HOROVOD_UINT8:
      return Of<Native<std::uint8_t, double>>(reduce_op);
    case DataType::HOROVOD_INT8:
      return Of<Native<std::int8_t, double>>(reduce_op);
    case DataType::HOROVOD_INT32:
      return Of<Native<std::int32_t, double>>(reduce_op);
    case DataType::HOROVOD_INT64:
      return Of<Native<std::int64_t, double>>(reduce_op);
    case DataType::HOROVOD_FLOAT16:
      return Of<Half>(reduce_op);
    case DataType::HOROVOD_FLOAT32:
      return Of<Native<float, float>>(reduce_op);
    case DataType::HOROVOD_FLOAT64:
      return Of<Native<double, double>>(reduce_op);
    default:
      throw std::logic_error("no arithmetic for this data type");
  }
}

}  // namespace horovod_opt
