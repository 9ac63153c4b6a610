#include "horovod_opt/csrc/binding/hooks/mismatch.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "horovod/common/common.h"
#include "horovod/common/message.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/hooks/refusal.h"
#include "horovod_opt/csrc/binding/modes/topo/objection.h"
#include "horovod_opt/csrc/binding/modes/topo/topo.h"
#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt_abi.h"

namespace horovod_opt {
namespace {

using horovod::common::ReduceOp;
using horovod::common::Request;

const char* Name(ReduceOp reduce_op) {
  switch (reduce_op) {
#define CASE(name, number, words) \
  case ReduceOp::name:            \
    return words;
    HOROVOD_OPT_REDUCE_OPS(CASE)
#undef CASE
  }
  return "unknown";
}

std::string Describe(const Request& request) {
  std::ostringstream text;
  text << Request::RequestType_Name(request.request_type()) << " of "
       << DataType_Name(request.tensor_type()) << DescribeShape(request)
       << (request.device() == CPU_DEVICE_ID ? "" : " on a GPU");
  switch (request.request_type()) {
    case Request::BROADCAST:
      text << " from rank " << request.root_rank();
      break;
    case Request::ALLREDUCE:
    case Request::REDUCESCATTER:
      text << ", " << Name(request.reduce_op()) << ", scaled by " << request.prescale_factor()
           << " and " << request.postscale_factor();
      break;
    default:
      break;
  }
  return text.str();
}

}  // namespace

std::string DescribeMismatch(const std::string& error, const std::string& name,
                             const std::vector<Request>& requests,
                             const std::vector<int>& global_ranks) {
  const Topo* topo = GlobalState().topo;
  if (topo != nullptr && std::any_of(requests.begin(), requests.end(), IsObjection)) {
    const std::string objection = topo->Objection(global_ranks, name);
    if (!objection.empty()) return objection;
  }
  std::map<std::string, std::vector<int>> ranks;
  for (const Request& request : requests) {
    ranks[Describe(request)].push_back(global_ranks.at(request.request_rank()));
  }
  std::map<int, std::string> lines;  // by the first of their ranks
  for (auto& [what, who] : ranks) {
    std::sort(who.begin(), who.end());
    lines[who[0]] = Ranges("rank", who) + ": " + what;
  }
  std::string text = error + " Tensor '" + name + "': ";
  for (const auto& [rank, line] : lines) text += (rank == lines.begin()->first ? "" : "; ") + line;
  return text + ".";
}

}  // namespace horovod_opt
