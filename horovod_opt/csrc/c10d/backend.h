// torch.distributed's backend "hvdopt": a c10d::Backend over the calls of a group. What it does not
// do goes to another backend below it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/c10d/element_types.h"
#include "horovod_opt/csrc/core/ordered_calls/ordered_group.h"

namespace horovod_opt {

class HvdoptBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Below = std::function<c10::intrusive_ptr<c10d::Backend>()>;
  // As of OrderedGroup::Site.
  struct Place {
    std::function<std::string()> address;
    int most = 0;
  };

  // `below`: makes the backend for the rest, once, when it is first needed on all ranks, from
  // whichever thread. `global_ranks`: names of the group's ranks; `say`: a line for people.
  HvdoptBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                std::chrono::milliseconds timeout, std::string name, std::vector<int> global_ranks,
                Below below, Place place, std::function<void(const std::string&)> say);
  ~HvdoptBackend() override;

  const std::string getBackendName() const override { return "hvdopt"; }

  // Calls that went our way, and to the backend below, by kind; "" for none.
  std::vector<std::pair<std::string, std::array<std::int64_t, 2>>> Counts() const;

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& to,
                        std::vector<std::int64_t>& from,
                        const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs,
                   const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int rank, int tag) override;
  WorkPtr recv(Tensors& tensors, int rank, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // By gloo, which names the ranks that have not come. PyTorch asks groups that call themselves so.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) override;

  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout.count(); }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return made_.load(); }
  void abort() override;
  void shutdown() override;

 private:
  enum Kind {
    kAllreduce,
    kReduce,
    kBroadcast,
    kAllgather,
    kReduceScatter,
    kBarrier,
    kGather,
    kScatter,
    kAlltoall,
    kSend,
    kRecv,
    kKinds
  };

  // None: its ranks can neither share memory nor connect, as all of them have found. Made by the first
  // call, collectively; if that fails for a rank it does for all, and every call throws that text.
  const std::shared_ptr<OrderedGroup>& Group();
  void SayWhatIsLeft(bool has_group, const std::string& error);
  c10d::Backend& BelowOurs(Kind kind);
  // Whether a reduction of these tensors is ours, as all ranks find.
  std::optional<ReductionOf> Ours(const Tensors& tensors, const c10d::ReduceOp& operation);
  bool Ours(const Tensors& tensors);
  bool AreOursOnOneHost(const Tensors& tensors);
  template <class CallOptions>
  WorkPtr Make(Kind kind, c10d::OpType type, OrderedCallPtr call, Tensors outputs,
               const Tensors& inputs, const CallOptions& options);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::string name_;
  const std::vector<int> global_ranks_;
  const Below make_below_;
  const Place place_;
  const std::function<void(const std::string&)> say_;
  std::atomic<std::int64_t> timeout_;  // ms
  std::atomic<std::uint64_t> made_{0};
  std::array<std::array<std::atomic<std::int64_t>, 2>, kKinds> counts_{};

  std::mutex mutex_;
  bool has_tried_ = false;
  std::string failure_;
  std::shared_ptr<OrderedGroup> group_;
  c10::intrusive_ptr<c10d::Backend> below_;
};

}  // namespace horovod_opt
