// Data types that are moved as bytes, and never reduced: no sum of theirs is one that every library
// below has.
//
// X(name, number, text, bytes of an element). The numbers follow those of Horovod's own data types,
// and travel in its messages.
#pragma once

#include <cstdint>

#define HOROVOD_OPT_BYTE_TYPES(X)              \
  X(UINT32, 11, "uint32", 4)                   \
  X(UINT64, 12, "uint64", 8)                   \
  X(COMPLEX32, 13, "complex32", 4)             \
  X(COMPLEX64, 14, "complex64", 8)             \
  X(COMPLEX128, 15, "complex128", 16)          \
  X(FLOAT8_E4M3FN, 16, "float8_e4m3fn", 1)     \
  X(FLOAT8_E5M2, 17, "float8_e5m2", 1)         \
  X(FLOAT8_E4M3FNUZ, 18, "float8_e4m3fnuz", 1) \
  X(FLOAT8_E5M2FNUZ, 19, "float8_e5m2fnuz", 1) \
  X(FLOAT8_E8M0FNU, 20, "float8_e8m0fnu", 1)   \
  X(FLOAT4_E2M1FN_X2, 21, "float4_e2m1fn_x2", 1)

namespace horovod_opt {
namespace byte_types {

template <int bytes>
struct Of;
template <>
struct Of<1> {
  using Type = std::uint8_t;
};
template <>
struct Of<4> {
  using Type = std::uint32_t;
};
template <>
struct Of<8> {
  using Type = std::uint64_t;
};
template <>
struct Of<16> {
  __extension__ typedef unsigned __int128 Type;
};

}  // namespace byte_types

// An element of that many bytes, for libraries that want a type.
template <int bytes>
using ByteElement = typename byte_types::Of<bytes>::Type;

}  // namespace horovod_opt
