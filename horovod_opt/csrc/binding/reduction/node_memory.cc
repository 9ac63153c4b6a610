#include "horovod_opt/csrc/binding/reduction/node_memory.h"

#include <optional>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/core/base/rounding.h"
#include "horovod_opt/csrc/core/shared_memory/segment_sharing.h"

namespace horovod_opt {
namespace {

std::size_t PresenceBytes(const Groups& groups) {
  return WholeLines(Presence::Bytes(static_cast<int>(groups.ranks.size())));
}

std::size_t QueueBytes(const Groups& groups) {
  return (groups.Alone() ? 1 : 2) * WholeLines(ReadyQueue::Bytes());
}

std::size_t PlacesBytes(const Groups& groups) {
  return WholeLines(BucketPlaces::Bytes(static_cast<int>(groups.ranks.size())));
}

// The doorbell, the ranks' presence, the queues and the buckets' places, before what the
// reduction uses.
std::size_t HeadBytes(const Groups& groups) {
  return WholeLines(sizeof(Doorbell)) + PresenceBytes(groups) + QueueBytes(groups) +
         PlacesBytes(groups);
}

}  // namespace

NodeMemory::NodeMemory(SharedSegment segment, const Groups& groups)
    : segment_(std::move(segment)),
      ranks_(groups.ranks),
      index_(groups.index),
      presence_(static_cast<char*>(segment_.data()) + WholeLines(sizeof(Doorbell)), groups.index,
                static_cast<int>(groups.ranks.size())) {
  char* const data = static_cast<char*>(segment_.data());
  char* const ready = data + WholeLines(sizeof(Doorbell)) + PresenceBytes(groups);
  doorbell_ = reinterpret_cast<Doorbell*>(data);
  ready_ = reinterpret_cast<ReadyQueue*>(ready);
  order_ = groups.Alone() ? ready_
                          : reinterpret_cast<ReadyQueue*>(ready + WholeLines(ReadyQueue::Bytes()));
  places_ = std::make_unique<BucketPlaces>(ready + QueueBytes(groups), groups.index,
                                           static_cast<int>(groups.ranks.size()));
  const std::size_t head = HeadBytes(groups);
  collectives_ = std::make_unique<NodeCollectives>(
      data + head, segment_.size() - head, groups.index, static_cast<int>(groups.ranks.size()));
}

std::unique_ptr<NodeMemory> NodeMemory::Share(horovod::common::Controller& controller,
                                              const Groups& groups, std::string& error) {
  const int ranks = static_cast<int>(groups.ranks.size());
  const std::size_t bytes = HeadBytes(groups) + NodeCollectives::Bytes(ranks);
  ControllerMeeting meeting(controller);
  std::optional<GroupSegment> segment = ShareSegment(meeting, groups.ranks, bytes, error);
  if (!segment) return nullptr;
  const bool gives = ranks > 1 && groups.index == 0;
  const Descriptor file = std::move(segment->file);
  const auto take_step = [&](const auto& step) { return meeting.TakeStep(step, error); };
  std::unique_ptr<NodeMemory> node(new NodeMemory(std::move(segment->memory), groups));
  const bool allocates = take_step([&] {
                           if (ranks > 1) node->AllocateOwn(file);
                         }) &&
                         take_step([&] {
                           if (gives) AllocateSegment(file, 0, bytes);
                         });
  if (!allocates) return nullptr;
  return take_step([&] { node->presence_.Enter(); }) ? std::move(node) : nullptr;
}

void NodeMemory::AllocateOwn(const Descriptor& file) const {
  for (const char* part : collectives_->OwnMemory()) {
    AllocateSegment(file, static_cast<std::size_t>(part - static_cast<char*>(segment_.data())),
                    static_cast<std::size_t>(collectives_->OwnBytes()));
  }
}

NodeMemory::~NodeMemory() { presence_.Close(); }

std::string NodeMemory::Missing() const {
  const int index = presence_.Missing();
  return index < 0 ? "" : "rank " + std::to_string(ranks_[index]) + " is gone";
}

}  // namespace horovod_opt
