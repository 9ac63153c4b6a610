#include "horovod_opt/csrc/binding/network/group_transport.h"

#define OMPI_SKIP_MPICXX
#include <mpi.h>
#include <sys/prctl.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "horovod/common/global_state.h"

namespace horovod_opt {
namespace {

using horovod::common::HorovodGlobalState;
using horovod::common::MPIContext;

// MPI can only be asked, by a thread that runs, and without one a long message does not even move:
// MPI may copy a fragment of it each time. While messages are on their way the thread asks, and
// sleeps in between: the longer nothing has come, the longer.
constexpr int kNapPart = 100;  // of the time since something has come
constexpr std::chrono::microseconds kShortestNap(2), kLongestNap(500);
// What has waited very long may wait so much longer, so that a rank that waits for a slow one costs
// nothing.
constexpr int kLongPart = 200;
constexpr std::chrono::milliseconds kLongestOfAll(10);

void Check(int result, const char* what) {
  if (result != MPI_SUCCESS) throw std::runtime_error(std::string(what) + " failed");
}

class MpiTransport : public Transport {
 public:
  MpiTransport(const MPIContext& mpi, const Groups& groups) {
    Check(MPI_Comm_split(mpi.mpi_comm, groups.index, groups.group, &comm_), "MPI_Comm_split");
  }

  ~MpiTransport() override { MPI_Comm_free(&comm_); }

  void Send(int to, int channel, const void* data, std::int64_t bytes,
            Operation& operation) override {
    Check(MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, channel, comm_, New(operation)),
          "MPI_Isend");
  }

  void Receive(int from, int channel, void* data, std::int64_t capacity,
               Operation& operation) override {
    Check(
        MPI_Irecv(data, static_cast<int>(capacity), MPI_BYTE, from, channel, comm_, New(operation)),
        "MPI_Irecv");
  }

  void Progress(Clock::time_point deadline) override {
    if (requests_.empty()) {
      Sleep(deadline);
      return;
    }
    const auto start = Clock::now();
    while (!Test()) {
      const auto now = Clock::now();
      if (now >= deadline || Sleep(std::min(deadline, now + Nap(now - start)))) return;
    }
  }

  void Wake() override {
    std::lock_guard<std::mutex> lock(mutex_);
    woken_ = true;
    wake_.notify_one();
  }

  void DumpState(StatePage& page) const override {
    page.Line(1, "messages of MPI on their way: " + std::to_string(requests_.size()));
  }

  // MPI cannot cancel what is sent.
  bool MustStay() const override { return !requests_.empty(); }

 private:
  static Clock::duration Nap(Clock::duration waited) {
    const auto nap = std::clamp<Clock::duration>(waited / kNapPart, kShortestNap, kLongestNap);
    return std::max(nap, std::min<Clock::duration>(waited / kLongPart, kLongestOfAll));
  }

  MPI_Request* New(Operation& operation) {
    operation.done = false;
    operations_.push_back(&operation);
    requests_.push_back(MPI_REQUEST_NULL);
    return &requests_.back();
  }

  // True if something has ended.
  bool Test() {
    const int number = static_cast<int>(requests_.size());
    completions_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    Check(MPI_Testsome(number, requests_.data(), &count, completions_.data(), statuses_.data()),
          "MPI_Testsome");
    if (count == 0) return false;
    for (int i = 0; i < count; ++i) {
      int bytes = 0;
      Check(MPI_Get_count(&statuses_[i], MPI_BYTE, &bytes), "MPI_Get_count");
      Operation& operation = *operations_[completions_[i]];
      operation.bytes = bytes;
      operation.done = true;
    }
    std::sort(completions_.begin(), completions_.begin() + count, std::greater<int>());
    for (int i = 0; i < count; ++i) {
      requests_[completions_[i]] = requests_.back();
      operations_[completions_[i]] = operations_.back();
      requests_.pop_back();
      operations_.pop_back();
    }
    return true;
  }

  // True if woken.
  bool Sleep(Clock::time_point until) {
    // Linux would wake this thread up to 50 us later to wake others at the same time.
    thread_local const int exact = prctl(PR_SET_TIMERSLACK, 1);
    static_cast<void>(exact);
    std::unique_lock<std::mutex> lock(mutex_);
    const auto woken = [this] { return woken_; };
    if (until == Clock::time_point::max()) {
      wake_.wait(lock, woken);
    } else {
      wake_.wait_until(lock, until, woken);
    }
    return std::exchange(woken_, false);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;
  std::vector<Operation*> operations_;  // of the requests
  std::vector<int> completions_;
  std::vector<MPI_Status> statuses_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false;
};

}  // namespace

std::unique_ptr<Transport> ConnectWithMpi(HorovodGlobalState& horovod, const Groups& groups) {
  int threads = 0;
  MPI_Query_thread(&threads);
  auto transport =
      std::make_unique<MpiTransport>(horovod.process_set_table.Get(0).mpi_context, groups);
  if (threads < MPI_THREAD_MULTIPLE) {
    throw std::runtime_error(
        "MPI was initialized for fewer threads than MPI_THREAD_MULTIPLE, which planned tensors on "
        "several nodes need; unset HOROVOD_MPI_THREADS_DISABLE, or let Horovod initialize MPI");
  }
  return transport;
}

}  // namespace horovod_opt
