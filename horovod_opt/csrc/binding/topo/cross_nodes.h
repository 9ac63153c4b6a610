// What connects the groups of ranks that share memory: collectives over one rank of each.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "horovod/common/common.h"
#include "horovod_opt/csrc/core/nodes/groups.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

// Over a communicator of its own. Waits sleep. One thread at a time, except for Close().
class CrossNodes {
 public:
  // Collective over all ranks; connects those with the same number in their group. Every rank gets
  // one, or nullptr and the same `error`.
  static std::unique_ptr<CrossNodes> Connect(horovod::common::HorovodGlobalState& horovod,
                                             const Groups& groups, std::string& error);
  virtual ~CrossNodes() = default;

  // In place. False if the others cannot be reached any more, or after Close().
  bool And(std::vector<std::uint64_t>& words);
  bool Allreduce(void* data, std::int64_t count, horovod::common::DataType dtype,
                 horovod::common::ReduceOp reduce_op);

  // Ends all waits: here at once, on the others sooner or later. Any thread.
  void Close() {
    closed_ = true;
    Interrupt();
  }

  // An operation may be under way that cannot be ended: neither this object nor the memory that the
  // operation uses may be freed.
  virtual bool MustStay() const { return false; }

  // Why the others cannot be reached; empty: they can, or Close() was called.
  const std::string& problem() const { return problem_; }

 protected:
  // Return false if `closed_`; other failures are exceptions.
  virtual bool DoAnd(std::vector<std::uint64_t>& words) = 0;
  virtual bool DoAllreduce(void* data, std::int64_t count, horovod::common::DataType dtype,
                           horovod::common::ReduceOp reduce_op) = 0;
  virtual void Interrupt() = 0;

  std::atomic<bool> closed_{false};

 private:
  template <class Collective>
  bool Attempt(const Collective& collective);

  std::string problem_;
};

}  // namespace horovod_opt
