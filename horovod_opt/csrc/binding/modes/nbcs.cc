#include "horovod_opt/csrc/binding/modes/nbcs.h"

#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/hooks/wait_timer.h"
#include "horovod_opt/csrc/core/waiting/backoff.h"

namespace horovod_opt {
namespace mpi {
namespace {

// MPI matches the n-th collective of one rank on a communicator with the n-th of every other, and
// nonblocking collectives with nonblocking ones only. Both hold: a collective is complete before
// the next one starts, as with the blocking forms, and all ranks begin to poll at the same
// collective, the first after they have agreed on the mode.
template <class Blocking, class Start>
int Negotiate(Blocking&& blocking, Start&& start) {
  WaitTimer timer;
  State& state = GlobalState();
  if (!state.polling) return blocking();

  MPI_Request request;
  int result = start(&request);
  if (result != MPI_SUCCESS) return result;
  const PollResult poll = PollUntil(
      [&] {
        int done = 0;
        result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        return done || result != MPI_SUCCESS;
      },
      state.backoff);
  state.counters.AddPolls(poll.tests, poll.slept);
  return result;
}

}  // namespace

int Allgather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
              int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return Negotiate(
      [&] {
        return MPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
      },
      [&](MPI_Request* request) {
        return MPI_Iallgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
                              request);
      });
}

int Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
              MPI_Comm comm) {
  return Negotiate([&] { return MPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm); },
                   [&](MPI_Request* request) {
                     return MPI_Iallreduce(sendbuf, recvbuf, count, datatype, op, comm, request);
                   });
}

int Alltoall(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
             int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return Negotiate(
      [&] {
        return MPI_Alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm);
      },
      [&](MPI_Request* request) {
        return MPI_Ialltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
                             request);
      });
}

int Barrier(MPI_Comm comm) {
  return Negotiate([&] { return MPI_Barrier(comm); },
                   [&](MPI_Request* request) { return MPI_Ibarrier(comm, request); });
}

int Bcast(void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm) {
  return Negotiate([&] { return MPI_Bcast(buffer, count, datatype, root, comm); },
                   [&](MPI_Request* request) {
                     return MPI_Ibcast(buffer, count, datatype, root, comm, request);
                   });
}

int Gather(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
           MPI_Datatype recvtype, int root, MPI_Comm comm) {
  return Negotiate(
      [&] {
        return MPI_Gather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm);
      },
      [&](MPI_Request* request) {
        return MPI_Igather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
                           request);
      });
}

int Gatherv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
            const int* recvcounts, const int* displs, MPI_Datatype recvtype, int root,
            MPI_Comm comm) {
  return Negotiate(
      [&] {
        return MPI_Gatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype,
                           root, comm);
      },
      [&](MPI_Request* request) {
        return MPI_Igatherv(sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype,
                            root, comm, request);
      });
}

}  // namespace mpi
}  // namespace horovod_opt
