// Error of mismatched collectives: what the ranks have asked for under one name, where they do not
// agree.
#pragma once

#include <string>
#include <vector>

namespace horovod {
namespace common {
class Request;
}
}  // namespace horovod

namespace horovod_opt {

// `error`, upstream's, and " Tensor 'x': ranks 0, 2: allreduce of float32 [3]; rank 1: ...". If a
// rank has objected to the tensor: why. `global_ranks`: by the number of a rank in the process set
// of the requests.
std::string DescribeMismatch(const std::string& error, const std::string& name,
                             const std::vector<horovod::common::Request>& requests,
                             const std::vector<int>& global_ranks);

}  // namespace horovod_opt
