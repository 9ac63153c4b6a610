#include "horovod_opt/csrc/binding/topo/mpi_cross_nodes.h"

#define OMPI_SKIP_MPICXX
#include <mpi.h>

#include <stdexcept>

#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/core/waiting/sleep_between_tests.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::HorovodGlobalState;
using horovod::common::MPIContext;
using horovod::common::ReduceOp;

class MpiCrossNodes : public CrossNodes {
 public:
  MpiCrossNodes(const MPIContext& mpi, const Groups& groups)
      : mpi_(mpi), backoff_(BackoffOf(GlobalState().settings)) {
    MPI_Comm_split(mpi.mpi_comm, groups.index, groups.group, &comm_);
  }

  ~MpiCrossNodes() override { MPI_Comm_free(&comm_); }

  // MPI cannot cancel a collective.
  bool MustStay() const override { return incomplete_; }

 protected:
  bool DoAnd(std::vector<std::uint64_t>& words) override {
    words_ = words;  // which lives as long as a request that cannot be ended
    if (!Complete(words_.data(), static_cast<int>(words_.size()), MPI_UINT64_T, MPI_BAND)) {
      return false;
    }
    words = words_;
    return true;
  }

  bool DoAllreduce(void* data, std::int64_t count, DataType dtype, ReduceOp reduce_op) override {
    return Complete(data, static_cast<int>(count), mpi_.GetMPIDataType(dtype),
                    Op(dtype, reduce_op));
  }

  void Interrupt() override {}  // Complete() looks at closed_

 private:
  MPI_Op Op(DataType dtype, ReduceOp reduce_op) const {
    switch (reduce_op) {
      case ReduceOp::MIN:
        return mpi_.GetMPIMinOp(dtype);
      case ReduceOp::MAX:
        return mpi_.GetMPIMaxOp(dtype);
      case ReduceOp::PRODUCT:
        return mpi_.GetMPIProdOp(dtype);
      default:  // averaging is scaling
        return mpi_.GetMPISumOp(dtype);
    }
  }

  // Tests with sleeps in between: a blocking MPI call would spin.
  bool Complete(void* data, int count, MPI_Datatype type, MPI_Op op) {
    MPI_Request request;
    if (MPI_Iallreduce(MPI_IN_PLACE, data, count, type, op, comm_, &request) != MPI_SUCCESS) {
      throw std::runtime_error("MPI_Iallreduce failed");
    }
    int done = 0;
    incomplete_ = true;
    PollUntil(
        [&] {
          if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            throw std::runtime_error("MPI_Test failed");
          }
          return done || closed_;
        },
        backoff_);
    incomplete_ = done == 0;
    return done != 0;
  }

  const MPIContext& mpi_;
  Backoff backoff_;
  std::vector<std::uint64_t> words_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  bool incomplete_ = false;  // read after the thread that waited has ended
};

}  // namespace

std::unique_ptr<CrossNodes> ConnectWithMpi(HorovodGlobalState& horovod, const Groups& groups) {
  const MPIContext& mpi = horovod.process_set_table.Get(0).mpi_context;
  int threads = 0;
  MPI_Query_thread(&threads);
  auto connected = std::make_unique<MpiCrossNodes>(mpi, groups);
  if (threads < MPI_THREAD_MULTIPLE) {
    throw std::runtime_error(
        "MPI was initialized for fewer threads than MPI_THREAD_MULTIPLE, which planned tensors on "
        "several nodes need; unset HOROVOD_MPI_THREADS_DISABLE, or let Horovod initialize MPI");
  }
  return connected;
}

}  // namespace horovod_opt
