// What no rank may ask for. One rank alone cannot refuse it: the others would wait for its tensor.
// So the request goes out, as one that goes with no other, and all ranks get one error.
#pragma once

#include <string>
#include <vector>

#include "horovod/common/common.h"
#include "horovod/common/message.h"

namespace horovod_opt {

// Takes the splits of an alltoall among `ranks` ranks into the call's entry. If they do not fit its
// tensor, the request says so instead, and this rank's error will be one of its arguments'.
void TakeSplits(const horovod::common::Tensor& splits, int ranks,
                horovod::common::TensorTableEntry& entry, horovod::common::Request& request);

// Why the ranks cannot do what they have sent under one name, of one type and operation; empty:
// this knows no reason.
std::string Refusal(const std::vector<horovod::common::Request>& requests);

// Of a request for people: " [3, 2]", or " [3, 2] with the splits int32 [1, 1]" if those do not
// fit.
std::string DescribeShape(const horovod::common::Request& request);

}  // namespace horovod_opt
