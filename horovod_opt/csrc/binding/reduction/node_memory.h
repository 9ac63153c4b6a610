// Shared memory segment of the ranks of a group, in mode topo: what is where in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_places.h"
#include "horovod_opt/csrc/core/shared_memory/doorbell.h"
#include "horovod_opt/csrc/core/shared_memory/presence.h"
#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"
#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"

namespace horovod {
namespace common {
class Controller;
}
}  // namespace horovod

namespace horovod_opt {

class NodeMemory {
 public:
  // Collective. Every rank gets one, or nullptr and the same `error`. To be destroyed by the thread
  // that calls this, whose end the other ranks notice, too.
  static std::unique_ptr<NodeMemory> Share(horovod::common::Controller& controller,
                                           const Groups& groups, std::string& error);

  Doorbell& doorbell() const { return *doorbell_; }
  // What is ready on all ranks of the group.
  ReadyQueue& ready() const { return *ready_; }
  // What is ready on all groups, in the order in which it is reduced; of one group the same.
  ReadyQueue& order() const { return *order_; }
  NodeCollectives& collectives() { return *collectives_; }
  BucketPlaces& places() { return *places_; }

  int index() const { return index_; }  // of this rank in the group

  // Why the group cannot go on; empty: its ranks are all there.
  std::string Missing() const;

  ~NodeMemory();

 private:
  NodeMemory(SharedSegment segment, const Groups& groups);
  void AllocateOwn(const Descriptor& file) const;

  SharedSegment segment_;
  const std::vector<int> ranks_;
  const int index_;
  Presence presence_;
  Doorbell* doorbell_;
  ReadyQueue* ready_;
  ReadyQueue* order_;
  std::unique_ptr<BucketPlaces> places_;
  std::unique_ptr<NodeCollectives> collectives_;
};

}  // namespace horovod_opt
