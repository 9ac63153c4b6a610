#include "horovod_opt/csrc/c10d/tensor_calls.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace horovod_opt {
namespace tensor_calls {
namespace {

using Made = HierarchicalCollectives::Call;

std::int64_t BytesOf(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

template <std::size_t size>
void Put(const std::string& text, std::array<char, size>& to) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), size - 1));
}

CallFacts FactsOf(CallKind kind, const Tensors& tensors) {
  CallFacts facts;
  facts.kind = kind;
  facts.tensors = static_cast<std::int32_t>(tensors.size());
  for (const at::Tensor& tensor : tensors) facts.bytes += BytesOf(tensor);
  if (tensors.empty()) return facts;
  const at::IntArrayRef sizes = tensors[0].sizes();
  facts.dimensions = static_cast<std::int32_t>(sizes.size());
  std::copy_n(sizes.begin(), std::min<std::size_t>(sizes.size(), CallFacts::kShown),
              facts.sizes.begin());
  Put(NameOf(tensors[0].scalar_type()), facts.type);
  return facts;
}

CallFacts FactsOf(CallKind kind, const Tensors& tensors, const c10d::ReduceOp& operation,
                  const ReductionOf& reduction) {
  CallFacts facts = FactsOf(kind, tensors);
  facts.operation = static_cast<std::int32_t>(operation.op_);
  facts.factor = reduction.prescale;
  Put(NameOf(operation), facts.operation_name);
  return facts;
}

// A contiguous tensor in the place of another one, and its way back. Its bytes are the values: a view
// that says "conjugated" or "negated" is another tensor, too. PyTorch resolves such views before it
// calls a backend, but not those in lists of lists.
struct Flat {
  explicit Flat(const at::Tensor& tensor)
      : original(tensor), flat(tensor.resolve_conj().resolve_neg().contiguous()) {}
  void PutBack() const {
    if (!flat.is_same(original)) at::Tensor(original).copy_(flat);
  }
  void* data() const { return flat.data_ptr(); }
  at::Tensor original, flat;
};

OrderedCallPtr NewCall(const CallFacts& facts) {
  auto call = std::make_shared<OrderedCall>();
  call->facts = facts;
  return call;
}

OrderedCallPtr Reduction(const CallFacts& facts, const Tensors& tensors,
                         const ReductionOf& reduction, bool wants_result) {
  OrderedCallPtr call = NewCall(facts);
  std::vector<Flat> flats;
  std::vector<Segment> segments;
  for (const at::Tensor& tensor : tensors) {
    const Flat& flat = flats.emplace_back(tensor);
    segments.push_back({flat.data(), wants_result ? flat.data() : nullptr, BytesOf(flat.flat)});
  }
  call->reduction = std::make_shared<const BucketReduction>(
      std::move(segments), reduction.arithmetic, reduction.prescale, reduction.postscale);
  call->complete = [flats = std::move(flats), wants_result] {
    at::NoGradGuard guard;
    if (!wants_result) return;
    for (const Flat& flat : flats) flat.PutBack();
  };
  return call;
}

OrderedCallPtr GatherInto(const CallFacts& facts, const at::Tensor& to, const at::Tensor& from,
                          std::function<void()> complete) {
  OrderedCallPtr call = NewCall(facts);
  call->perform = [to, from](HierarchicalCollectives& collectives, const Made& made) {
    return collectives.Allgather(from.data_ptr(), BytesOf(from), to.data_ptr(), made);
  };
  call->complete = std::move(complete);
  return call;
}

// By rank, of which one alone has something.
Tensors ForOne(const at::Tensor& tensor, int rank, int ranks) {
  Tensors all(static_cast<std::size_t>(ranks));
  all[static_cast<std::size_t>(rank)] = tensor;
  return all;
}

// Undefined tensors, or none at all: nothing is given, or taken.
OrderedCallPtr Exchange(const CallFacts& facts, const Tensors& outputs, const Tensors& inputs) {
  OrderedCallPtr call = NewCall(facts);
  const auto flatten = [](const Tensors& tensors) {
    std::vector<std::optional<Flat>> flats;
    for (const at::Tensor& tensor : tensors) {
      tensor.defined() ? flats.emplace_back(tensor) : flats.emplace_back(std::nullopt);
    }
    return flats;
  };
  const auto to = flatten(outputs), from = flatten(inputs);
  PieceCopy::Pieces pieces(std::max(outputs.size(), inputs.size()));
  for (std::size_t rank = 0; rank < pieces.size(); ++rank) {
    PieceCopy::Piece& piece = pieces[rank];
    if (rank < from.size() && from[rank]) {
      piece.from = static_cast<const char*>(from[rank]->data());
      piece.from_bytes = BytesOf(from[rank]->flat);
    }
    if (rank < to.size() && to[rank]) {
      piece.to = static_cast<char*>(to[rank]->data());
      piece.to_bytes = BytesOf(to[rank]->flat);
    }
  }
  call->perform = [pieces, from](HierarchicalCollectives& collectives, const Made& made) {
    return collectives.Alltoall(pieces, made);
  };
  call->complete = [to] {
    at::NoGradGuard guard;
    for (const auto& flat : to) {
      if (flat) flat->PutBack();
    }
  };
  return call;
}

}  // namespace

OrderedCallPtr Allreduce(const Tensors& tensors, const c10d::ReduceOp& operation,
                         const ReductionOf& reduction) {
  return Reduction(FactsOf(CallKind::kAllreduce, tensors, operation, reduction), tensors, reduction,
                   true);
}

OrderedCallPtr Reduce(const at::Tensor& tensor, const c10d::ReduceOp& operation,
                      const ReductionOf& reduction, int root, bool is_root) {
  CallFacts facts = FactsOf(CallKind::kReduce, {tensor}, operation, reduction);
  facts.root = root;
  return Reduction(facts, {tensor}, reduction, is_root);
}

OrderedCallPtr Broadcast(const at::Tensor& tensor, int root) {
  CallFacts facts = FactsOf(CallKind::kBroadcast, {tensor});
  facts.root = root;
  OrderedCallPtr call = NewCall(facts);
  const Flat flat(tensor);
  call->perform = [flat, root](HierarchicalCollectives& collectives, const Made& made) {
    return collectives.Broadcast(flat.data(), BytesOf(flat.flat), root, made);
  };
  call->complete = [flat] {
    at::NoGradGuard guard;
    flat.PutBack();
  };
  return call;
}

OrderedCallPtr Allgather(const at::Tensor& output, const at::Tensor& input) {
  const Flat to(output);
  return GatherInto(FactsOf(CallKind::kAllgather, {input}), to.flat, input.contiguous(), [to] {
    at::NoGradGuard guard;
    to.PutBack();
  });
}

OrderedCallPtr Allgather(const Tensors& outputs, const at::Tensor& input) {
  const at::Tensor from = input.contiguous();
  const at::Tensor all =
      at::empty({static_cast<std::int64_t>(outputs.size()), from.numel()}, from.options());
  return GatherInto(FactsOf(CallKind::kAllgather, {input}), all, from, [all, outputs] {
    at::NoGradGuard guard;
    for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
      at::Tensor(outputs[rank])
          .copy_(all[static_cast<std::int64_t>(rank)].view(outputs[rank].sizes()));
    }
  });
}

OrderedCallPtr ReduceScatter(const at::Tensor& output, const at::Tensor& input,
                             const c10d::ReduceOp& operation, const ReductionOf& reduction) {
  OrderedCallPtr call = NewCall(FactsOf(CallKind::kReduceScatter, {input}, operation, reduction));
  const Flat to(output);
  call->perform = [to, from = input.contiguous(), reduction](HierarchicalCollectives& collectives,
                                                             const Made& made) {
    return collectives.ReduceScatter(from.data_ptr(), to.data(), BytesOf(to.flat),
                                     reduction.arithmetic, reduction.prescale, reduction.postscale,
                                     made);
  };
  call->complete = [to] {
    at::NoGradGuard guard;
    to.PutBack();
  };
  return call;
}

OrderedCallPtr Barrier() {
  OrderedCallPtr call = NewCall(FactsOf(CallKind::kBarrier, {}));
  call->reduction = std::make_shared<const BucketReduction>(
      std::vector<Segment>{}, *ArithmeticOf(data_type::kUint8, reduce_op::kSum), 1.0, 1.0);
  return call;
}

OrderedCallPtr Alltoall(const Tensors& outputs, const Tensors& inputs) {
  CallFacts facts = FactsOf(CallKind::kAlltoall, inputs);
  facts.bytes = 0;
  return Exchange(facts, outputs, inputs);
}

OrderedCallPtr Gather(const Tensors& outputs, const at::Tensor& input, int root, int ranks) {
  CallFacts facts = FactsOf(CallKind::kGather, {input});
  facts.root = root;
  return Exchange(facts, outputs, ForOne(input, root, ranks));
}

OrderedCallPtr Scatter(const at::Tensor& output, const Tensors& inputs, int root, int ranks) {
  CallFacts facts = FactsOf(CallKind::kScatter, {output});
  facts.root = root;
  return Exchange(facts, ForOne(output, root, ranks), inputs);
}

}  // namespace tensor_calls
}  // namespace horovod_opt
