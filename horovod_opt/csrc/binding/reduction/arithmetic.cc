#include "horovod_opt/csrc/binding/reduction/arithmetic.h"

#include <stdexcept>
#include <type_traits>

#include "horovod/common/half.h"
#include "horovod/common/ops/collective_operations.h"
#include "horovod_opt/csrc/core/base/bfloat16.h"
#include "horovod_opt/csrc/core/reduction/elementwise.h"
#include "horovod_opt_abi.h"

namespace horovod_opt {
namespace {

using elementwise::Max;
using elementwise::Min;
using elementwise::Product;
using elementwise::Sum;
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

// Wide: of what is between the inputs and the result.
template <class T, class Factor, class Wide = T>
struct Elements {
  static constexpr std::size_t kBytes = sizeof(T);

  template <class Op>
  static constexpr auto Reduction() {
    if constexpr (std::is_same_v<T, Wide>) {
      return elementwise::Reduce<T, Op>;
    } else {
      return elementwise::ReduceRoundingOnce<T, Op, Wide>;
    }
  }

  static void Scale(void* data, std::int64_t count, double factor) {
    T* values = static_cast<T*>(data);
    horovod::common::ScaleBufferCPUImpl(static_cast<const T*>(values), values, count,
                                        static_cast<Factor>(factor));
  }
};

// A float16, for which upstream has functions and no type. Each sum of two is rounded, as
// upstream's.
class HalfBits {
 public:
  HalfBits(float value) { horovod::common::Float2HalfBits(&value, &bits_); }
  operator float() const {
    float value;
    horovod::common::HalfBits2Float(&bits_, &value);
    return value;
  }

 private:
  unsigned short bits_;
};

struct Half : Elements<HalfBits, float> {
  static constexpr auto Scale = Elements<unsigned short, float>::Scale;
};

template <class Element>
Arithmetic Of(ReduceOp reduce_op) {
  switch (reduce_op) {
    case ReduceOp::AVERAGE:  // averaging is scaling
    case ReduceOp::SUM:
      return {Element::kBytes, Element::template Reduction<Sum>(), Element::Scale};
    case ReduceOp::MIN:
      return {Element::kBytes, Element::template Reduction<Min>(), Element::Scale};
    case ReduceOp::MAX:
      return {Element::kBytes, Element::template Reduction<Max>(), Element::Scale};
    case ReduceOp::PRODUCT:
      return {Element::kBytes, Element::template Reduction<Product>(), Element::Scale};
    default:
      throw std::logic_error("no elementwise reduction");
  }
}

}  // namespace

Arithmetic ArithmeticOf(DataType dtype, ReduceOp reduce_op) {
  switch (dtype) {
    case DataType::HOROVOD_UINT8:
      return Of<Elements<std::uint8_t, double>>(reduce_op);
    case DataType::HOROVOD_INT8:
      return Of<Elements<std::int8_t, double>>(reduce_op);
    case DataType::HOROVOD_INT32:
      return Of<Elements<std::int32_t, double>>(reduce_op);
    case DataType::HOROVOD_INT64:
      return Of<Elements<std::int64_t, double>>(reduce_op);
    case DataType::HOROVOD_FLOAT16:
      return Of<Half>(reduce_op);
    case DataType::HOROVOD_FLOAT32:
      return Of<Elements<float, float>>(reduce_op);
    case DataType::HOROVOD_FLOAT64:
      return Of<Elements<double, double>>(reduce_op);
    case DataType::HOROVOD_BFLOAT16:
      return Of<Elements<Bfloat16, float, float>>(reduce_op);
    default:
      throw std::logic_error("no arithmetic for this data type");
  }
}

}  // namespace horovod_opt
