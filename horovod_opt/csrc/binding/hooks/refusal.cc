#include "horovod_opt/csrc/binding/hooks/refusal.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "horovod_opt_abi.h"

namespace horovod_opt {
namespace {

using horovod::common::DataType;
using horovod::common::Request;
using horovod::common::Status;
using horovod::common::StatusType;
using horovod::common::Tensor;
using horovod::common::TensorTableEntry;

using Numbers = std::vector<std::int64_t>;

// In place of a shape: this, the type of the splits, and, each after their number, the tensor's
// dimensions, those of the splits, and the splits. No tensor has it, nor an objection
// (objection.h).
constexpr std::int64_t kUnfitSplits = -2;
constexpr std::size_t kMostShown = 1024;

struct UnfitSplits {
  DataType dtype = horovod::common::HOROVOD_INT32;
  Numbers shape, dims, splits;

  Numbers Pack() const {
    Numbers packed{kUnfitSplits, dtype};
    for (const Numbers* numbers : {&shape, &dims, &splits}) {
      packed.push_back(static_cast<std::int64_t>(numbers->size()));
      packed.insert(packed.end(), numbers->begin(), numbers->end());
    }
    return packed;
  }

  static UnfitSplits Unpack(const Numbers& packed) {
    UnfitSplits unfit;
    unfit.dtype = static_cast<DataType>(packed.at(1));
    auto next = packed.begin() + 2;
    for (Numbers* numbers : {&unfit.shape, &unfit.dims, &unfit.splits}) {
      const auto end = next + 1 + *next;
      numbers->assign(next + 1, end);
      next = end;
    }
    return unfit;
  }
};

bool AreUnfit(const Numbers& shape) { return !shape.empty() && shape[0] == kUnfitSplits; }

std::string List(const Numbers& numbers) {
  std::string text;
  for (std::int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return '[' + text + ']';
}

// Of `rows` rows; false: they do not fit. An empty list divides the rows equally.
bool Divide(std::int64_t rows, const Numbers& splits, int ranks, std::vector<std::int32_t>& taken) {
  if (splits.empty()) {
    if (rows % ranks != 0 || rows / ranks > std::numeric_limits<std::int32_t>::max()) return false;
    taken.assign(ranks, static_cast<std::int32_t>(rows / ranks));
    return true;
  }
  const bool fit = static_cast<int>(splits.size()) == ranks &&
                   *std::min_element(splits.begin(), splits.end()) >= 0 &&
                   std::accumulate(splits.begin(), splits.end(), std::int64_t{0}) <= rows;
  if (fit) taken.assign(splits.begin(), splits.end());
  return fit;
}

bool IsReduction(Request::RequestType type) {
  return type == Request::ALLREDUCE || type == Request::ADASUM || type == Request::REDUCESCATTER;
}

bool CanReduce(DataType dtype) {
  switch (dtype) {
#define CASE(name, number, bytes) case ::horovod::common::HOROVOD_##name:
    HOROVOD_OPT_DTYPES(CASE)
#undef CASE
    return true;
    default:
      return false;
  }
}

std::string ReducedTypes() {
  std::string text;
#define ADD(name, number, bytes) \
  text += (text.empty() ? "" : ", ") + DataType_Name(::horovod::common::HOROVOD_##name);
  HOROVOD_OPT_DTYPES(ADD)
#undef ADD
  return text;
}

}  // namespace

void TakeSplits(const Tensor& splits, int ranks, TensorTableEntry& entry, Request& request) {
  UnfitSplits unfit;
  unfit.shape = entry.tensor->shape().to_vector();
  if (unfit.shape.empty()) return;  // a scalar: whatever the splits, the ranks refuse it
  unfit.dtype = splits.dtype();
  unfit.dims = splits.shape().to_vector();
  if (unfit.dtype == horovod::common::HOROVOD_INT32) {
    const auto* const data = static_cast<const std::int32_t*>(splits.data());
    unfit.splits.assign(data, data + splits.shape().num_elements());
    if (unfit.dims.size() == 1 && Divide(unfit.shape[0], unfit.splits, ranks, entry.splits)) return;
  }
  unfit.splits.resize(std::min(unfit.splits.size(), kMostShown));
  request.set_tensor_shape(unfit.Pack());
  entry.callback = [callback = std::move(entry.callback)](const Status& status) {
    callback(status.type() == StatusType::PRECONDITION_ERROR
                 ? Status::InvalidArgument(status.reason())
                 : status);
  };
}

std::string Refusal(const std::vector<Request>& requests) {
  const Request& first = requests[0];
  if (IsReduction(first.request_type()) && !CanReduce(first.tensor_type())) {
    return "Horovod moves " + DataType_Name(first.tensor_type()) +
           " from rank to rank, and cannot reduce it: convert it to a type that it reduces, which "
           "are " +
           ReducedTypes() + ".";
  }
  const bool by_rows = first.request_type() == Request::ALLTOALL ||
                       first.request_type() == Request::ALLGATHER ||
                       first.request_type() == Request::REDUCESCATTER;
  const bool scalar = std::any_of(requests.begin(), requests.end(), [](const Request& request) {
    return request.tensor_shape().empty();
  });
  if (by_rows && scalar) {
    return Request::RequestType_Name(first.request_type()) +
           " of a scalar, which has no rows: reshape it to one dimension.";
  }
  const bool unfit = std::any_of(requests.begin(), requests.end(), [](const Request& request) {
    return AreUnfit(request.tensor_shape());
  });
  if (unfit) {
    return "An alltoall cannot split a tensor: it needs as splits one int32 for each rank, none "
           "negative, together at most the rows of the tensor; without splits, a number of rows "
           "that it can divide equally among the ranks.";
  }
  return "";
}

std::string DescribeShape(const Request& request) {
  if (!AreUnfit(request.tensor_shape())) return ' ' + List(request.tensor_shape());
  const UnfitSplits unfit = UnfitSplits::Unpack(request.tensor_shape());
  std::string text = ' ' + List(unfit.shape);
  if (unfit.dims == Numbers{0}) return text + " without splits";
  text += " with the splits " + DataType_Name(unfit.dtype);
  if (unfit.dims.size() != 1) text += " of shape " + List(unfit.dims);
  if (!unfit.splits.empty()) text += ' ' + List(unfit.splits);
  return text + (unfit.splits.size() == kMostShown ? " and more" : "");
}

}  // namespace horovod_opt
