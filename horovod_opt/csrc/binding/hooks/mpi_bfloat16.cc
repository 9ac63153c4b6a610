#include "horovod_opt/csrc/binding/hooks/mpi_bfloat16.h"

#include "horovod_opt/csrc/core/base/bfloat16.h"
#include "horovod_opt/csrc/core/reduction/elementwise.h"

namespace horovod_opt {
namespace {

// MPI reduces two at a time, so each step rounds.
template <class Op>
void Reduce(void* in, void* inout, int* count, MPI_Datatype*) {
  const void* const inputs[] = {inout, in};
  elementwise::Reduce<Bfloat16, Op>(inout, inputs, 2, *count);
}

}  // namespace

void MpiBfloat16::Create() {
  constexpr int kCommutative = 1;
  MPI_Type_contiguous(sizeof(Bfloat16), MPI_BYTE, &type);
  MPI_Type_commit(&type);
  MPI_Op_create(&Reduce<elementwise::Sum>, kCommutative, &sum);
  MPI_Op_create(&Reduce<elementwise::Min>, kCommutative, &min);
  MPI_Op_create(&Reduce<elementwise::Max>, kCommutative, &max);
  MPI_Op_create(&Reduce<elementwise::Product>, kCommutative, &product);
}

void MpiBfloat16::Free() {
  if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  for (MPI_Op* op : {&sum, &min, &max, &product}) {
    if (*op != MPI_OP_NULL) MPI_Op_free(op);
  }
}

}  // namespace horovod_opt
