// Arithmetic of Horovod's data types: elementwise reduction and scaling, with the results of its own
// operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace horovod_opt {

// The numbers of horovod::common::DataType and ReduceOp, by which plans name them; the binding
// checks them.
namespace data_type {
enum Number : int {
  kUint8 = 0,
  kInt8 = 1,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 10,
};
}  // namespace data_type
namespace reduce_op {
enum Number : int { kAverage = 0, kSum = 1, kAdasum = 2, kMin = 3, kMax = 4, kProduct = 5 };
}  // namespace reduce_op

// What is done to elements, for one element type and reduction: the same on whichever thread
// (FloatEnvironment). `count` is in elements.
struct Arithmetic {
  std::size_t element;  // bytes
  // out = ((inputs[0] op inputs[1]) op inputs[2]) ..., of two inputs at least; `out` may be one of
  // the first two.
  void (*reduce)(void* out, const void* const* inputs, int number, std::int64_t count);
  void (*scale)(void* data, std::int64_t count, double factor);
  // As `reduce`, of two inputs, but the same bits in either order, of any values: for ranks that
  // each compute it in an order of their own. nullptr: `reduce` does that.
  decltype(reduce) commute = nullptr;
};

inline void Scale(const Arithmetic& arithmetic, char* values, std::int64_t bytes, double factor) {
  if (factor == 1) return;
  arithmetic.scale(values, bytes / static_cast<std::int64_t>(arithmetic.element), factor);
}

// None: there is none for this type, or of this reduction (Adasum). An average is a sum that is
// scaled.
std::optional<Arithmetic> ArithmeticOf(int dtype, int operation);

}  // namespace horovod_opt
