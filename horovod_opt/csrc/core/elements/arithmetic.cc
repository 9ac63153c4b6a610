#include "horovod_opt/csrc/core/elements/arithmetic.h"

#include "horovod_opt/csrc/core/base/bfloat16.h"
#include "horovod_opt/csrc/core/base/float16.h"
#include "horovod_opt/csrc/core/elements/elementwise.h"

namespace horovod_opt {
namespace {

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
std::optional<Arithmetic> Of(int operation) {
  switch (operation) {
    case reduce_op::kAverage:
    case reduce_op::kSum:
      return Element::template With<elementwise::Sum>();
    case reduce_op::kMin:
      return Element::template With<elementwise::Min>();
    case reduce_op::kMax:
      return Element::template With<elementwise::Max>();
    case reduce_op::kProduct:
      return Element::template With<elementwise::Product>();
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<Arithmetic> ArithmeticOf(int dtype, int operation) {
  switch (dtype) {
    case data_type::kUint8:
      return Of<Elements<std::uint8_t, double>>(operation);
    case data_type::kInt8:
      return Of<Elements<std::int8_t, double>>(operation);
    case data_type::kInt32:
      return Of<Elements<std::int32_t, double>>(operation);
    case data_type::kInt64:
      return Of<Elements<std::int64_t, double>>(operation);
    case data_type::kFloat16:
      return Of<Elements<Float16, float>>(operation);  // rounded after each two, as upstream's
    case data_type::kFloat32:
      return Of<Elements<float, float>>(operation);
    case data_type::kFloat64:
      return Of<Elements<double, double>>(operation);
    case data_type::kBfloat16:
      return Of<Elements<Bfloat16, float, true>>(operation);
    default:
      return std::nullopt;
  }
}

}  // namespace horovod_opt
