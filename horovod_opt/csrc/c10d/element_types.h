// PyTorch's types and reductions as core's arithmetic.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "horovod_opt/csrc/core/elements/arithmetic.h"

namespace horovod_opt {

// What a reduction of a call is made of.
struct ReductionOf {
  Arithmetic arithmetic;
  double prescale = 1;
  double postscale = 1;
};

inline std::optional<int> DataTypeOf(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return data_type::kUint8;
    case at::kChar:
      return data_type::kInt8;
    case at::kInt:
      return data_type::kInt32;
    case at::kLong:
      return data_type::kInt64;
    case at::kHalf:
      return data_type::kFloat16;
    case at::kFloat:
      return data_type::kFloat32;
    case at::kDouble:
      return data_type::kFloat64;
    case at::kBFloat16:
      return data_type::kBfloat16;
    default:
      return std::nullopt;
  }
}

// As Python names it, without "torch.".
inline std::string NameOf(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return "uint8";
    case at::kChar:
      return "int8";
    case at::kShort:
      return "int16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    case at::kHalf:
      return "float16";
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kBFloat16:
      return "bfloat16";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(type);
  }
}

inline const char* NameOf(const c10d::ReduceOp& operation) {
  switch (operation.op_) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "avg";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::MAX:
      return "max";
    case c10d::ReduceOp::PREMUL_SUM:
      return "premul_sum";
    default:
      return "bitwise";
  }
}

// The factor of PREMUL_SUM; none: it is a tensor.
inline std::optional<double> FactorOf(const c10d::ReduceOp& operation) {
  const auto* supplement =
      dynamic_cast<const c10d::PreMulSumSupplement*>(operation.supplement_.get());
  if (supplement == nullptr || supplement->tensor_factor.defined()) return std::nullopt;
  return supplement->double_factor;
}

// None: another backend does it, on all ranks, as it follows from type and operation alone.
inline std::optional<ReductionOf> ReductionFor(at::ScalarType type, const c10d::ReduceOp& operation,
                                               int ranks) {
  const std::optional<int> number = DataTypeOf(type);
  if (!number) return std::nullopt;
  const auto with = [&](int reduction, double prescale, double postscale) {
    const auto arithmetic = ArithmeticOf(*number, reduction);
    return arithmetic ? std::optional(ReductionOf{*arithmetic, prescale, postscale}) : std::nullopt;
  };
  switch (operation.op_) {
    case c10d::ReduceOp::SUM:
      return with(reduce_op::kSum, 1, 1);
    case c10d::ReduceOp::AVG:
      if (!at::isFloatingType(type)) return std::nullopt;
      return with(reduce_op::kSum, 1, 1.0 / ranks);
    case c10d::ReduceOp::PRODUCT:
      return with(reduce_op::kProduct, 1, 1);
    case c10d::ReduceOp::MIN:
      return with(reduce_op::kMin, 1, 1);
    case c10d::ReduceOp::MAX:
      return with(reduce_op::kMax, 1, 1);
    case c10d::ReduceOp::PREMUL_SUM: {
      const std::optional<double> factor = FactorOf(operation);
      if (!at::isFloatingType(type) || !factor) return std::nullopt;
      return with(reduce_op::kSum, *factor, 1);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace horovod_opt
