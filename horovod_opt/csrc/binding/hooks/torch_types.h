// Data types of PyTorch that upstream does not know: it looks them up here, in its file for
// PyTorch.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/version.h>

#include <stdexcept>
#include <string>

#include "horovod/common/message.h"

namespace horovod_opt {

// X(type of PyTorch, type of Horovod)
#define HOROVOD_OPT_TORCH_TYPES_OF_2_4(X) \
  X(Bool, BOOL)                           \
  X(UInt16, UINT16)                       \
  X(UInt32, UINT32)                       \
  X(UInt64, UINT64)                       \
  X(ComplexHalf, COMPLEX32)               \
  X(ComplexFloat, COMPLEX64)              \
  X(ComplexDouble, COMPLEX128)            \
  X(Float8_e4m3fn, FLOAT8_E4M3FN)         \
  X(Float8_e5m2, FLOAT8_E5M2)             \
  X(Float8_e4m3fnuz, FLOAT8_E4M3FNUZ)     \
  X(Float8_e5m2fnuz, FLOAT8_E5M2FNUZ)
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 7
#define HOROVOD_OPT_TORCH_TYPES_OF_2_7(X) X(Float8_e8m0fnu, FLOAT8_E8M0FNU)
#else
#define HOROVOD_OPT_TORCH_TYPES_OF_2_7(X)
#endif
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 8
#define HOROVOD_OPT_TORCH_TYPES_OF_2_8(X) X(Float4_e2m1fn_x2, FLOAT4_E2M1FN_X2)
#else
#define HOROVOD_OPT_TORCH_TYPES_OF_2_8(X)
#endif
#define HOROVOD_OPT_TORCH_TYPES(X)  \
  HOROVOD_OPT_TORCH_TYPES_OF_2_4(X) \
  HOROVOD_OPT_TORCH_TYPES_OF_2_7(X) \
  HOROVOD_OPT_TORCH_TYPES_OF_2_8(X)

inline horovod::common::DataType DataTypeOf(c10::ScalarType type) {
  switch (type) {
#define CASE(theirs, ours)      \
  case c10::ScalarType::theirs: \
    return ::horovod::common::HOROVOD_##ours;
    HOROVOD_OPT_TORCH_TYPES(CASE)
#undef CASE
    default:
      throw std::logic_error(std::string("Horovod cannot send tensors of PyTorch's type ") +
                             c10::toString(type) + ": send one of another type.");
  }
}

inline c10::ScalarType TorchTypeOf(horovod::common::DataType type) {
  switch (type) {
#define CASE(theirs, ours)                \
  case ::horovod::common::HOROVOD_##ours: \
    return c10::ScalarType::theirs;
    HOROVOD_OPT_TORCH_TYPES(CASE)
#undef CASE
    default:
      throw std::logic_error("PyTorch has no type " + horovod::common::DataType_Name(type) + ".");
  }
}

}  // namespace horovod_opt
