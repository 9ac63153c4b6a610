// bfloat16: the upper half of a float32. Arithmetic is that of float32; what becomes a bfloat16
// again is rounded to the nearest one, ties to even, and every NaN is the same one, so that results
// do not depend on the order of two operands.
//
// Plain C++11 without branches: compilers vectorize its loops, and CUDA's compiles it for GPUs.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define HOROVOD_OPT_ON_GPU __host__ __device__
#else
#define HOROVOD_OPT_ON_GPU
#endif

namespace horovod_opt {

class Bfloat16 {
 public:
  Bfloat16() = default;
  HOROVOD_OPT_ON_GPU Bfloat16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    bits_ = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }

  HOROVOD_OPT_ON_GPU operator float() const {
    const uint32_t bits = static_cast<uint32_t>(bits_) << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
  }

  HOROVOD_OPT_ON_GPU Bfloat16& operator*=(float factor) {
    return *this = Bfloat16(*this * factor);
  }

 private:
  uint16_t bits_;
};

static_assert(sizeof(Bfloat16) == 2, "it is what frameworks store");

}  // namespace horovod_opt
