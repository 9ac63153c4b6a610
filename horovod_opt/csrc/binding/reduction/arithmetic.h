// Elementwise reduction and scaling of Horovod's data types, with the results of its own
// operations.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "horovod/common/message.h"
#include "horovod_opt/csrc/core/base/bfloat16.h"
#include "horovod_opt/csrc/core/base/float16.h"
#include "horovod_opt/csrc/core/reduction/elementwise.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt_abi.h"

namespace horovod_opt {
namespace arithmetic {

using elementwise::Max;
using elementwise::Min;
using elementwise::Product;
using elementwise::Sum;
using horovod::common::DataType;
using horovod::common::ReduceOp;

// Plans name types and operations by the numbers of graph_analysis/reductions.py.
#define HOROVOD_OPT_CHECK(name, number, bytes) \
  static_assert(DataType::HOROVOD_##name == number, "upstream has another number");
HOROVOD_OPT_DTYPES(HOROVOD_OPT_CHECK)
#undef HOROVOD_OPT_CHECK
#define HOROVOD_OPT_CHECK(name, number, words) \
  static_assert(ReduceOp::name == number, "upstream has another number");
HOROVOD_OPT_REDUCE_OPS(HOROVOD_OPT_CHECK)
#undef HOROVOD_OPT_CHECK

// Factor: what an element is scaled by, as in upstream. kRoundsOnce: not after each two.
template <class T, class Factor, bool kRoundsOnce = false>
struct Elements {
  template <class Op>
  static constexpr auto Reduction() {
    if constexpr (kRoundsOnce) {
      return elementwise::ReduceRoundingOnce<T, Op>;
    } else {
      return elementwise::Reduce<T, Op>;
    }
  }

  template <class Op>
  static Arithmetic With() {
    return {sizeof(T), Reduction<Op>(), elementwise::Scale<T, Factor>, elementwise::Commute<T, Op>};
  }
};

template <class Element>
Arithmetic Of(ReduceOp reduce_op) {
  switch (reduce_op) {
    case ReduceOp::AVERAGE:  // averaging is scaling
    case ReduceOp::SUM:
      return Element::template With<Sum>();
    case ReduceOp::MIN:
      return Element::template With<Min>();
    case ReduceOp::MAX:
      return Element::template With<Max>();
    case ReduceOp::PRODUCT:
      return Element::template With<Product>();
    default:
      throw std::logic_error("no elementwise reduction");
  }
}

}  // namespace arithmetic

// Throws std::logic_error for a reduction that has none (Adasum).
inline Arithmetic ArithmeticOf(horovod::common::DataType dtype,
                               horovod::common::ReduceOp reduce_op) {
  using namespace arithmetic;
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
      return Of<Elements<Float16, float>>(reduce_op);  // rounded after each two, as upstream's
    case DataType::HOROVOD_FLOAT32:
      return Of<Elements<float, float>>(reduce_op);
    case DataType::HOROVOD_FLOAT64:
      return Of<Elements<double, double>>(reduce_op);
    case DataType::HOROVOD_BFLOAT16:
      return Of<Elements<Bfloat16, float, true>>(reduce_op);
    default:
      throw std::logic_error("no arithmetic for this data type");
  }
}

}  // namespace horovod_opt
