// The arguments of collectives that a backend is given, checked: errors are those of the caller's rank
// alone, before the call is made.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <vector>

namespace horovod_opt {
namespace call_arguments {

using Tensors = std::vector<at::Tensor>;

inline void RequireMainMemory(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.device().is_cpu(), "backend hvdopt takes tensors in main memory, not on ",
                tensor.device(), "; remedy: init_process_group(\"cpu:hvdopt,cuda:nccl\")");
  }
}

inline void RequireOneType(const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(), "tensors of one call have types ",
                tensors[0].scalar_type(), " and ", tensor.scalar_type(),
                "; remedy: a call for each type");
  }
}

// What a root gives to a call, or gets by it: of `pieces` the one list, a tensor for each of `ranks`,
// like `one`.
inline const Tensors& PiecesOf(const std::vector<Tensors>& pieces, const at::Tensor& one, int ranks,
                               const char* call) {
  TORCH_CHECK(pieces.size() == 1 && pieces[0].size() == static_cast<std::size_t>(ranks), call,
              " with ", pieces.empty() ? 0 : pieces[0].size(),
              " tensors on its root, in a group of ", ranks, " ranks");
  RequireMainMemory(pieces[0]);
  for (const at::Tensor& piece : pieces[0]) {
    TORCH_CHECK(piece.numel() == one.numel() && piece.scalar_type() == one.scalar_type(), call,
                " of ", one.scalar_type(), " ", one.sizes(), " and ", piece.scalar_type(), " ",
                piece.sizes(), "; remedy: tensors of one size and type");
  }
  return pieces[0];
}

// By rank, so many rows of `tensor`; none are given: equally many.
inline Tensors Split(const at::Tensor& tensor, const std::vector<std::int64_t>& rows, int ranks) {
  const std::int64_t all = tensor.dim() == 0 ? 1 : tensor.size(0);
  std::int64_t sum = 0;
  for (std::int64_t of_rank : rows) sum += of_rank;
  TORCH_CHECK(rows.empty() ? all % ranks == 0
                           : rows.size() == static_cast<std::size_t>(ranks) && sum == all,
              "all_to_all of ", all, " rows, split ", rows, ", in a group of ", ranks,
              " ranks; remedy: a split for each rank, which add up to the rows");
  Tensors pieces;
  for (std::int64_t rank = 0, begin = 0; rank < ranks; ++rank) {
    const std::int64_t of_rank = rows.empty() ? all / ranks : rows[static_cast<std::size_t>(rank)];
    pieces.push_back(tensor.narrow(0, begin, of_rank));
    begin += of_rank;
  }
  return pieces;
}

}  // namespace call_arguments
}  // namespace horovod_opt
