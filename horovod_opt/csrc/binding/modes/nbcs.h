// Nonblocking cache synchronization, mode nbcs (dissertation 6.3.2): the negotiation's collectives
// are started in their nonblocking form and tested with sleeps in between (backoff.h),
// so that a rank that waits leaves its core to the framework's threads. In modes without nbcs or
// topo they block, and spin, as MPI's do. MPI's own signatures; for the background thread only.
#pragma once

#define OMPI_SKIP_MPICXX
#include <mpi.h>

namespace horovod_opt {
namespace mpi {

int Allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
              int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
              MPI_Comm comm);
int Alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
             int recvcount, MPI_Datatype recvtype, MPI_Comm comm);
int Barrier(MPI_Comm comm);
int Bcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm);
int Gather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
           MPI_Datatype recvtype, int root, MPI_Comm comm);
int Gatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
            const int* recvcounts, const int* displs, MPI_Datatype recvtype, int root,
            MPI_Comm comm);

}  // namespace mpi
}  // namespace horovod_opt
