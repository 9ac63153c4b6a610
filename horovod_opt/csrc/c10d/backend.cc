#include "horovod_opt/csrc/c10d/backend.h"

#include <optional>
#include <type_traits>

#include "horovod_opt/csrc/c10d/call_arguments.h"
#include "horovod_opt/csrc/c10d/store_meeting.h"
#include "horovod_opt/csrc/c10d/store_notes.h"
#include "horovod_opt/csrc/c10d/tensor_calls.h"
#include "horovod_opt/csrc/c10d/work.h"
#include "horovod_opt/csrc/core/shared_memory/segment_sharing.h"

namespace horovod_opt {
namespace {

using namespace call_arguments;
using c10d::OpType;

// Whether somebody may wait for the call otherwise than by wait(): older PyTorch does not say.
template <class Options, class = void>
struct MayGoOn {
  static bool In(const Options&) { return true; }
};
template <class Options>
struct MayGoOn<Options, std::void_t<decltype(std::declval<Options>().asyncOp)>> {
  static bool In(const Options& options) { return options.asyncOp; }
};

// As gloo's, with our name; in the order of HvdoptBackend::Kind.
constexpr const char* kTitles[] = {
    "hvdopt:all_reduce", "hvdopt:reduce",         "hvdopt:broadcast",
    "hvdopt:all_gather", "hvdopt:reduce_scatter", "hvdopt:barrier",
    "hvdopt:gather",     "hvdopt:scatter",        "hvdopt:all_to_all"};

}  // namespace

HvdoptBackend::HvdoptBackend(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                             std::chrono::milliseconds timeout, std::string name,
                             std::vector<int> global_ranks, Below below, Place place,
                             std::function<void(const std::string&)> say)
    : Backend(rank, size),
      store_(std::move(store)),
      name_(std::move(name)),
      global_ranks_(std::move(global_ranks)),
      make_below_(std::move(below)),
      place_(std::move(place)),
      say_(std::move(say)),
      timeout_(timeout.count()) {}

HvdoptBackend::~HvdoptBackend() { shutdown(); }

const std::shared_ptr<OrderedGroup>& HvdoptBackend::Group() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!has_tried_) {
    has_tried_ = true;
    StoreMeeting meeting(store_, getRank(), getSize(), global_ranks_,
                         std::chrono::milliseconds(timeout_.load()), name_);
    const OrderedGroup::Site site{SharingDomain(), place_.address, place_.most,
                                  std::make_shared<StoreNotes>(store_, getRank(), getSize())};
    try {
      std::string error;
      auto group = OrderedGroup::Start(meeting, name_, site, error);
      meeting.Conclude();
      if (!error.empty() && getRank() == 0) SayWhatIsLeft(group != nullptr, error);
      group_ = std::move(group);
    } catch (const c10::Error& problem) {
      failure_ = "group " + name_ + " cannot be made: " + problem.what_without_backtrace();
    } catch (const std::exception& problem) {
      failure_ = problem.what();
    }
  }
  TORCH_CHECK_WITH(DistBackendError, failure_.empty(), failure_);
  return group_;
}

void HvdoptBackend::SayWhatIsLeft(bool has_group, const std::string& error) {
  say_("group " + name_ +
       (has_group ? " shares no memory, so its ranks exchange messages: "
                  : " can neither share memory nor connect, so gloo performs its calls: ") +
       error);
}

c10d::Backend& HvdoptBackend::BelowOurs(Kind kind) {
  ++counts_[kind][1];
  std::lock_guard<std::mutex> lock(mutex_);
  if (!below_) below_ = make_below_();
  return *below_;
}

bool HvdoptBackend::Ours(const Tensors& tensors) {
  RequireMainMemory(tensors);
  for (const at::Tensor& tensor : tensors) {
    if (tensor.layout() != at::kStrided) return false;
  }
  return Group() != nullptr;
}

std::optional<ReductionOf> HvdoptBackend::Ours(const Tensors& tensors,
                                               const c10d::ReduceOp& operation) {
  if (tensors.empty() || !Ours(tensors)) return std::nullopt;
  RequireOneType(tensors);
  return ReductionFor(tensors[0].scalar_type(), operation, getSize());
}

template <class CallOptions>
HvdoptBackend::WorkPtr HvdoptBackend::Make(Kind kind, OpType type, OrderedCallPtr call,
                                           Tensors outputs, const Tensors& inputs,
                                           const CallOptions& options) {
  ++counts_[kind][0];
  ++made_;
  call->timeout =
      options.timeout.count() > 0 ? options.timeout : std::chrono::milliseconds(timeout_.load());
  const std::shared_ptr<OrderedGroup>& group = Group();
  auto work = c10::make_intrusive<CallWork>(getRank(), type, group, call, std::move(outputs),
                                            kTitles[kind], inputs);
  group->Make(call, MayGoOn<CallOptions>::In(options));
  return work;
}

HvdoptBackend::WorkPtr HvdoptBackend::allreduce(Tensors& tensors,
                                                const c10d::AllreduceOptions& options) {
  const auto reduction = Ours(tensors, options.reduceOp);
  if (!reduction) return BelowOurs(kAllreduce).allreduce(tensors, options);
  return Make(kAllreduce, OpType::ALLREDUCE,
              tensor_calls::Allreduce(tensors, options.reduceOp, *reduction), tensors, tensors,
              options);
}

HvdoptBackend::WorkPtr HvdoptBackend::allreduce_sparse(Tensors& tensors,
                                                       const c10d::AllreduceOptions& options) {
  return BelowOurs(kAllreduce).allreduce_sparse(tensors, options);
}

HvdoptBackend::WorkPtr HvdoptBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const auto reduction = Ours(tensors, options.reduceOp);
  if (!reduction) return BelowOurs(kAllreduce).allreduce_coalesced(tensors, options);
  return Make(kAllreduce, OpType::ALLREDUCE_COALESCED,
              tensor_calls::Allreduce(tensors, options.reduceOp, *reduction), tensors, tensors,
              options);
}

HvdoptBackend::WorkPtr HvdoptBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const auto reduction =
      tensors.size() == 1 ? Ours(tensors, options.reduceOp) : std::optional<ReductionOf>();
  if (!reduction) return BelowOurs(kReduce).reduce(tensors, options);
  const int root = static_cast<int>(options.rootRank);
  return Make(
      kReduce, OpType::REDUCE,
      tensor_calls::Reduce(tensors[0], options.reduceOp, *reduction, root, root == getRank()),
      tensors, tensors, options);
}

HvdoptBackend::WorkPtr HvdoptBackend::broadcast(Tensors& tensors,
                                                const c10d::BroadcastOptions& options) {
  if (tensors.size() != 1 || !Ours(tensors))
    return BelowOurs(kBroadcast).broadcast(tensors, options);
  return Make(kBroadcast, OpType::BROADCAST,
              tensor_calls::Broadcast(tensors[0], static_cast<int>(options.rootRank)), tensors,
              tensors, options);
}

HvdoptBackend::WorkPtr HvdoptBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& options) {
  if (inputs.size() != 1 || outputs.size() != 1 || !Ours(inputs)) {
    return BelowOurs(kAllgather).allgather(outputs, inputs, options);
  }
  RequireMainMemory(outputs[0]);
  TORCH_CHECK(outputs[0].size() == static_cast<std::size_t>(getSize()), "allgather into ",
              outputs[0].size(), " tensors, in a group of ", getSize(), " ranks");
  for (const at::Tensor& output : outputs[0]) {
    TORCH_CHECK(
        output.numel() == inputs[0].numel() && output.scalar_type() == inputs[0].scalar_type(),
        "allgather of ", inputs[0].scalar_type(), " ", inputs[0].sizes(), " into ",
        output.scalar_type(), " ", output.sizes(), "; remedy: tensors of one size and type");
  }
  return Make(kAllgather, OpType::ALLGATHER, tensor_calls::Allgather(outputs[0], inputs[0]),
              outputs[0], inputs, options);
}

HvdoptBackend::WorkPtr HvdoptBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                      const c10d::AllgatherOptions& options) {
  if (!Ours({output, input})) return BelowOurs(kAllgather)._allgather_base(output, input, options);
  TORCH_CHECK(
      output.numel() == input.numel() * getSize() && output.scalar_type() == input.scalar_type(),
      "allgather of ", input.scalar_type(), " ", input.sizes(), " into ", output.scalar_type(), " ",
      output.sizes(),
      "; remedy: as many times the elements as "
      "the group has ranks, ",
      getSize());
  return Make(kAllgather, OpType::_ALLGATHER_BASE, tensor_calls::Allgather(output, input), {output},
              {input}, options);
}

// A call for each; the last one ends after the others.
HvdoptBackend::WorkPtr HvdoptBackend::allgather_coalesced(std::vector<Tensors>& outputs,
                                                          Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  // outputs[rank][tensor]
  if (inputs.empty() || !Ours(inputs)) {
    return BelowOurs(kAllgather).allgather_coalesced(outputs, inputs, options);
  }
  WorkPtr last;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<Tensors> of_one(1);
    for (Tensors& of_rank : outputs) of_one[0].push_back(of_rank.at(i));
    Tensors input{inputs[i]};
    last = allgather(of_one, input, options);
  }
  return last;
}

HvdoptBackend::WorkPtr HvdoptBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  if (inputs.empty() || !Ours(inputs)) {
    return BelowOurs(kAllgather).allgather_into_tensor_coalesced(outputs, inputs, options);
  }
  TORCH_CHECK(outputs.size() == inputs.size(), "allgather of ", inputs.size(), " tensors into ",
              outputs.size());
  WorkPtr last;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    last = _allgather_base(outputs[i], inputs[i], options);
  }
  return last;
}

HvdoptBackend::WorkPtr HvdoptBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  const auto reduction = outputs.size() == 1 && inputs.size() == 1 ? Ours(outputs, options.reduceOp)
                                                                   : std::optional<ReductionOf>();
  if (!reduction) return BelowOurs(kReduceScatter).reduce_scatter(outputs, inputs, options);
  TORCH_CHECK(inputs[0].size() == static_cast<std::size_t>(getSize()), "reduce_scatter of ",
              inputs[0].size(), " tensors, in a group of ", getSize(), " ranks");
  Tensors flat;
  for (const at::Tensor& input : inputs[0]) {
    TORCH_CHECK(
        input.numel() == outputs[0].numel() && input.scalar_type() == outputs[0].scalar_type(),
        "reduce_scatter of ", input.scalar_type(), " ", input.sizes(), " into ",
        outputs[0].scalar_type(), " ", outputs[0].sizes(),
        "; remedy: tensors of one size and type");
    flat.push_back(input.reshape({-1}));
  }
  return Make(kReduceScatter, OpType::REDUCE_SCATTER,
              tensor_calls::ReduceScatter(outputs[0], at::cat(flat), options.reduceOp, *reduction),
              outputs, inputs[0], options);
}

HvdoptBackend::WorkPtr HvdoptBackend::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  const auto reduction = Ours({output, input}, options.reduceOp);
  if (!reduction) {
    return BelowOurs(kReduceScatter)._reduce_scatter_base(output, input, options);
  }
  TORCH_CHECK(input.numel() == output.numel() * getSize(), "reduce_scatter of ", input.sizes(),
              " into ", output.sizes(),
              "; remedy: as many times the elements as the group has "
              "ranks, ",
              getSize());
  return Make(kReduceScatter, OpType::_REDUCE_SCATTER_BASE,
              tensor_calls::ReduceScatter(output, input, options.reduceOp, *reduction), {output},
              {input}, options);
}

HvdoptBackend::WorkPtr HvdoptBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  if (inputs.empty() || !Ours(inputs, options.reduceOp)) {
    return BelowOurs(kReduceScatter).reduce_scatter_tensor_coalesced(outputs, inputs, options);
  }
  TORCH_CHECK(outputs.size() == inputs.size(), "reduce_scatter of ", inputs.size(),
              " tensors into ", outputs.size());
  WorkPtr last;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    last = _reduce_scatter_base(outputs[i], inputs[i], options);
  }
  return last;
}

HvdoptBackend::WorkPtr HvdoptBackend::barrier(const c10d::BarrierOptions& options) {
  if (!Group()) return BelowOurs(kBarrier).barrier(options);
  return Make(kBarrier, OpType::BARRIER, tensor_calls::Barrier(), {}, {}, options);
}

void HvdoptBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_for_all) {
  BelowOurs(kBarrier).monitoredBarrier(options, wait_for_all);
}

bool HvdoptBackend::AreOursOnOneHost(const Tensors& tensors) {
  return Ours(tensors) && Group()->hosts() == 1;
}

HvdoptBackend::WorkPtr HvdoptBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::GatherOptions& options) {
  if (inputs.size() != 1 || !AreOursOnOneHost(inputs)) {
    return BelowOurs(kGather).gather(outputs, inputs, options);
  }
  const int root = static_cast<int>(options.rootRank);
  const Tensors to =
      root == getRank() ? PiecesOf(outputs, inputs[0], getSize(), "gather") : Tensors();
  return Make(kGather, OpType::GATHER, tensor_calls::Gather(to, inputs[0], root, getSize()), to,
              inputs, options);
}

HvdoptBackend::WorkPtr HvdoptBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                              const c10d::ScatterOptions& options) {
  if (outputs.size() != 1 || !AreOursOnOneHost(outputs)) {
    return BelowOurs(kScatter).scatter(outputs, inputs, options);
  }
  const int root = static_cast<int>(options.rootRank);
  const Tensors from =
      root == getRank() ? PiecesOf(inputs, outputs[0], getSize(), "scatter") : Tensors();
  return Make(kScatter, OpType::SCATTER, tensor_calls::Scatter(outputs[0], from, root, getSize()),
              outputs, from, options);
}

HvdoptBackend::WorkPtr HvdoptBackend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                    std::vector<std::int64_t>& to,
                                                    std::vector<std::int64_t>& from,
                                                    const c10d::AllToAllOptions& options) {
  if (!AreOursOnOneHost({output, input})) {
    return BelowOurs(kAlltoall).alltoall_base(output, input, to, from, options);
  }
  RequireOneType({output, input});
  return Make(kAlltoall, OpType::ALLTOALL_BASE,
              tensor_calls::Alltoall(Split(output, to, getSize()), Split(input, from, getSize())),
              {output}, {input}, options);
}

HvdoptBackend::WorkPtr HvdoptBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                               const c10d::AllToAllOptions& options) {
  if (inputs.empty() || !AreOursOnOneHost(inputs)) {
    return BelowOurs(kAlltoall).alltoall(outputs, inputs, options);
  }
  RequireMainMemory(outputs);
  RequireOneType(inputs);
  RequireOneType(outputs);
  const auto size = static_cast<std::size_t>(getSize());
  TORCH_CHECK(inputs.size() == size && outputs.size() == size, "all_to_all of ", inputs.size(),
              " tensors into ", outputs.size(), ", in a group of ", size, " ranks");
  return Make(kAlltoall, OpType::ALLTOALL, tensor_calls::Alltoall(outputs, inputs), outputs, inputs,
              options);
}

HvdoptBackend::WorkPtr HvdoptBackend::send(Tensors& tensors, int rank, int tag) {
  return BelowOurs(kSend).send(tensors, rank, tag);
}

HvdoptBackend::WorkPtr HvdoptBackend::recv(Tensors& tensors, int rank, int tag) {
  return BelowOurs(kRecv).recv(tensors, rank, tag);
}

HvdoptBackend::WorkPtr HvdoptBackend::recvAnysource(Tensors& tensors, int tag) {
  return BelowOurs(kRecv).recvAnysource(tensors, tag);
}

void HvdoptBackend::abort() {
  std::shared_ptr<OrderedGroup> group;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    group = group_;
  }
  if (group) group->Abort("group " + name_ + " was aborted on a rank");
}

void HvdoptBackend::shutdown() {
  std::shared_ptr<OrderedGroup> group;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    group = group_;
  }
  if (group) group->Leave();
}

std::vector<std::pair<std::string, std::array<std::int64_t, 2>>> HvdoptBackend::Counts() const {
  constexpr const char* kNames[kKinds] = {"allreduce",      "reduce",  "broadcast", "allgather",
                                          "reduce_scatter", "barrier", "gather",    "scatter",
                                          "all_to_all",     "send",    "recv"};
  std::vector<std::pair<std::string, std::array<std::int64_t, 2>>> counts;
  for (int kind = 0; kind < kKinds; ++kind) {
    counts.push_back({kNames[kind], {counts_[kind][0].load(), counts_[kind][1].load()}});
  }
  return counts;
}

}  // namespace horovod_opt
