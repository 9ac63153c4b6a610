// Types and shapes of TensorFlow's tensors that upstream does not take: its file for TensorFlow
// looks them up here.
#pragma once

#include <stdexcept>

#include "horovod/common/message.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/errors.h"

// What the splits of an alltoall may be when a graph is made; whether they are int32 the ranks see
// together.
#define HOROVOD_OPT_SPLITS_TYPES                                                            \
  "{uint8, int8, uint16, int16, uint32, int32, uint64, int64, float16, bfloat16, float32, " \
  "float64, bool, complex64, complex128}"

namespace horovod_opt {

// X(type, of TensorFlow and of Horovod; the type in C++)
#define HOROVOD_OPT_TENSORFLOW_BYTE_TYPES(X) \
  X(UINT32, ::tensorflow::uint32)            \
  X(UINT64, ::tensorflow::uint64)            \
  X(COMPLEX64, ::tensorflow::complex64)      \
  X(COMPLEX128, ::tensorflow::complex128)    \
  X(FLOAT8_E5M2, ::tensorflow::float8_e5m2)  \
  X(FLOAT8_E4M3FN, ::tensorflow::float8_e4m3fn)

inline horovod::common::DataType DataTypeOf(::tensorflow::DataType dtype) {
  switch (dtype) {
#define CASE(type, _)           \
  case ::tensorflow::DT_##type: \
    return ::horovod::common::HOROVOD_##type;
    HOROVOD_OPT_TENSORFLOW_BYTE_TYPES(CASE)
#undef CASE
    default:
      throw std::logic_error("Horovod cannot send tensors of TensorFlow's type " +
                             ::tensorflow::DataTypeString(dtype) + ": send one of another type.");
  }
}

// Whether a rank can send the operation's inputs. A list of types in its definition cannot name
// them all (float8), and would be in the way of one error for all ranks: one may have sent a type
// that cannot be reduced, and others something else.
template <class Status>
Status CheckTypes(::tensorflow::OpKernelContext* context) {
  for (int i = 0; i < context->num_inputs(); ++i) {
    switch (const ::tensorflow::DataType dtype = context->input_dtype(i)) {
      case ::tensorflow::DT_UINT8:
      case ::tensorflow::DT_INT8:
      case ::tensorflow::DT_UINT16:
      case ::tensorflow::DT_INT16:
      case ::tensorflow::DT_INT32:
      case ::tensorflow::DT_INT64:
      case ::tensorflow::DT_HALF:
      case ::tensorflow::DT_BFLOAT16:
      case ::tensorflow::DT_FLOAT:
      case ::tensorflow::DT_DOUBLE:
      case ::tensorflow::DT_BOOL:
#define CASE(type, _) case ::tensorflow::DT_##type:
        HOROVOD_OPT_TENSORFLOW_BYTE_TYPES(CASE)
#undef CASE
        break;
      default:
        return ::tensorflow::errors::InvalidArgument(
            "Horovod cannot send a tensor of type ", ::tensorflow::DataTypeString(dtype), ": '",
            context->op_kernel().name(), "' needs one of numbers or bool.");
    }
  }
  return Status();
}

inline ::tensorflow::DataType TensorFlowTypeOf(horovod::common::DataType dtype) {
  switch (dtype) {
#define CASE(type, _)                     \
  case ::horovod::common::HOROVOD_##type: \
    return ::tensorflow::DT_##type;
    HOROVOD_OPT_TENSORFLOW_BYTE_TYPES(CASE)
#undef CASE
    default:
      throw std::logic_error("TensorFlow has no type " + horovod::common::DataType_Name(dtype) +
                             ".");
  }
}

// The shape of an output with as many rows as there turn out to be. A scalar has none, and the
// ranks refuse it: not while a graph is traced, perhaps on one rank only.
inline auto ReplaceRows(::tensorflow::shape_inference::InferenceContext* context,
                        ::tensorflow::shape_inference::ShapeHandle input,
                        ::tensorflow::shape_inference::ShapeHandle* output) {
  if (context->RankKnown(input) && context->Rank(input) == 0) {
    *output = context->UnknownShape();
    return decltype(context->ReplaceDim(input, 0, context->UnknownDim(), output))();
  }
  return context->ReplaceDim(input, 0, context->UnknownDim(), output);
}

}  // namespace horovod_opt
