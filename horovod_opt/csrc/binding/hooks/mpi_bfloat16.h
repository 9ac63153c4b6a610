// MPI datatype and reduction operators for bfloat16, which MPI does not have: a type of two bytes,
// and functions for MPI_Op_create(). And datatypes for what is moved as bytes (byte_types.h).
#pragma once

#define OMPI_SKIP_MPICXX
#include <mpi.h>

#include "horovod_opt/csrc/core/base/bfloat16.h"
#include "horovod_opt/csrc/core/elements/elementwise.h"

namespace horovod_opt {

struct MpiBfloat16 {
  // In each MPI context, once MPI is initialized and before it is finalized.
  void Create() {
    constexpr int kCommutative = 1;
    MPI_Type_contiguous(sizeof(Bfloat16), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(&Reduce<elementwise::Sum>, kCommutative, &sum);
    MPI_Op_create(&Reduce<elementwise::Min>, kCommutative, &min);
    MPI_Op_create(&Reduce<elementwise::Max>, kCommutative, &max);
    MPI_Op_create(&Reduce<elementwise::Product>, kCommutative, &product);
  }

  void Free() {
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
    for (MPI_Op* op : {&sum, &min, &max, &product}) {
      if (*op != MPI_OP_NULL) MPI_Op_free(op);
    }
  }

  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op sum = MPI_OP_NULL;
  MPI_Op min = MPI_OP_NULL;
  MPI_Op max = MPI_OP_NULL;
  MPI_Op product = MPI_OP_NULL;

 private:
  // MPI reduces two at a time, so each step rounds.
  template <class Op>
  static void Reduce(void* in, void* inout, int* count, MPI_Datatype*) {
    const void* const inputs[] = {inout, in};
    elementwise::Reduce<Bfloat16, Op>(inout, inputs, 2, *count);
  }
};

// Of an element of so many bytes, which MPI is not to look into.
inline MPI_Datatype MpiBytes(int bytes) {
  switch (bytes) {
    case 1:
      return MPI_UINT8_T;
    case 4:
      return MPI_UINT32_T;
    case 8:
      return MPI_UINT64_T;
    default:
      static_assert(sizeof(double) == 8, "two of them have 16 bytes");
      return MPI_C_DOUBLE_COMPLEX;
  }
}

}  // namespace horovod_opt
