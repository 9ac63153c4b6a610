// bfloat16 as MPI sees it: a data type of two bytes, and reductions of its own.
#pragma once

#define OMPI_SKIP_MPICXX
#include <mpi.h>

namespace horovod_opt {

struct MpiBfloat16 {
  // In each MPI context, once MPI is initialized and before it is finalized.
  void Create();
  void Free();

  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op sum = MPI_OP_NULL;
  MPI_Op min = MPI_OP_NULL;
  MPI_Op max = MPI_OP_NULL;
  MPI_Op product = MPI_OP_NULL;
};

}  // namespace horovod_opt
