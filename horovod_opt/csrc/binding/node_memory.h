// The memory that the ranks of a node share in mode topo.
#pragma once

#include <memory>
#include <string>

#include "horovod_opt/csrc/core/doorbell.h"
#include "horovod_opt/csrc/core/node_allreduce.h"
#include "horovod_opt/csrc/core/ready_log.h"
#include "horovod_opt/csrc/core/shared_segment.h"

namespace horovod {
namespace common {
class Controller;
}
}  // namespace horovod

namespace horovod_opt {

class NodeMemory {
 public:
  // Collective. Every rank gets one, or nullptr and the same `error`.
  static std::unique_ptr<NodeMemory> Share(horovod::common::Controller& controller,
                                           std::string& error);

  Doorbell& doorbell() const { return *doorbell_; }
  ReadyLog& log() const { return *log_; }
  NodeAllreduce& allreduce() { return allreduce_; }

 private:
  NodeMemory(SharedSegment segment, int rank, int ranks);

  SharedSegment segment_;
  Doorbell* doorbell_;
  ReadyLog* log_;
  NodeAllreduce allreduce_;
};

}  // namespace horovod_opt
