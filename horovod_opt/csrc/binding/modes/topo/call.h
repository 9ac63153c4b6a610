// Signature of a collective call, or of the calls of a group, as upstream's requests and responses
// describe them: what recurring_calls.h plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "horovod/common/group_table.h"
#include "horovod/common/message.h"
#include "horovod/common/tensor_queue.h"
#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {

horovod::common::Request::RequestType RequestTypeOf(Collective collective);

// What has to be the same on every rank.
struct Call {
  std::string name;
  Collective collective = Collective::kAllreduce;
  Reduction reduction;
  int root = 0;                    // of a broadcast
  std::vector<std::int64_t> dims;  // of an allgather: of a row

  std::string Text() const;
  std::string Description() const;  // for people
  std::int64_t Bytes() const;       // as in Slot
};

// One call, or all of a group.
struct CallGroup {
  std::vector<Call> calls;
  // By call; equal for equal groups, on every rank, and for no key of a graph.
  std::vector<std::int64_t> keys;
  // By which upstream tells it from others without a name. Then the names of the calls are without
  // it, and what this describes is a signature (unnamed_calls.h).
  std::optional<std::uint64_t> number;

  // Of the whole group; as AsPlan(), the same in whatever order the calls are.
  std::int64_t Key() const;
  // Buckets of one kind and type, of at most 4 MiB, the same in whatever order the calls are.
  Plan AsPlan() const;
  // Of a signature: the calls in one of its lanes.
  CallGroup InLane(int lane) const;
  std::string Description() const;
};

// Upstream has given this name to a call that has none.
bool IsUnnamed(const std::string& name);

// None: they are never planned. `requests`: one, or those of a group.
std::optional<CallGroup> CallsOf(const std::vector<horovod::common::Request>& requests);

// The same of the tensors of a response that is not performed yet, which are in the queue. Of a
// group that is in several responses only in the first.
std::vector<CallGroup> CallsOf(const horovod::common::Response& response,
                               const horovod::common::TensorQueue& queue,
                               const horovod::common::GroupTable& groups);

}  // namespace horovod_opt
