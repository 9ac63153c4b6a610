#include "node_memory.h"

#include <unistd.h>

#include <exception>
#include <optional>
#include <random>
#include <utility>

#include "horovod/common/controller.h"
#include "rank_rows.h"

namespace horovod_opt {
namespace {

constexpr std::size_t kLine = 64;

std::size_t Rounded(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

std::size_t PresenceBytes(const Groups& groups) {
  return Rounded(Presence::Bytes(static_cast<int>(groups.ranks.size())));
}

// The doorbell, who is present, and the logs lie before what the reduction uses.
std::size_t HeadBytes(const Groups& groups) {
  return Rounded(sizeof(Doorbell)) + PresenceBytes(groups) +
         (groups.Alone() ? 1 : 2) * Rounded(ReadyLog::Bytes());
}

std::string NewName() {
  std::random_device random;
  return "/horovod-opt-" + std::to_string(getpid()) + "-" + std::to_string(random());
}

}  // namespace

NodeMemory::NodeMemory(SharedSegment segment, const Groups& groups)
    : segment_(std::move(segment)),
      ranks_(groups.ranks),
      presence_(static_cast<char*>(segment_.data()) + Rounded(sizeof(Doorbell)), groups.index,
                static_cast<int>(groups.ranks.size())) {
  char* const data = static_cast<char*>(segment_.data());
  char* const ready = data + Rounded(sizeof(Doorbell)) + PresenceBytes(groups);
  doorbell_ = reinterpret_cast<Doorbell*>(data);
  ready_ = reinterpret_cast<ReadyLog*>(ready);
  order_ = groups.Alone() ? ready_ : reinterpret_cast<ReadyLog*>(ready + Rounded(ReadyLog::Bytes()));
  const std::size_t head = HeadBytes(groups);
  allreduce_ = std::make_unique<NodeAllreduce>(data + head, segment_.size() - head, groups.index,
                                               static_cast<int>(groups.ranks.size()));
}

std::unique_ptr<NodeMemory> NodeMemory::Share(horovod::common::Controller& controller,
                                              const Groups& groups, std::string& error) {
  const int ranks = static_cast<int>(groups.ranks.size());
  const std::size_t bytes = HeadBytes(groups) + NodeAllreduce::Bytes(ranks);

  // The first rank of the group makes the segment, the others open it, then its name goes.
  std::optional<SharedSegment> segment;
  std::string name;
  std::string problem;
  const auto attempt = [&](auto&& act) {
    try {
      act();
    } catch (const std::exception& failure) {
      problem = failure.what();
    }
  };
  if (ranks == 1) {
    attempt([&] { segment.emplace(SharedSegment::Private(bytes)); });
  } else if (groups.index == 0) {
    name = NewName();
    attempt([&] { segment.emplace(SharedSegment::Create(name, bytes)); });
  }
  name = GatherRows(controller, name)[groups.ranks[0]];
  if (groups.index != 0) attempt([&] { segment.emplace(SharedSegment::Open(name, bytes)); });
  error = FirstProblem(controller, problem);
  if (segment) segment->Unlink();
  if (!error.empty()) return nullptr;
  std::unique_ptr<NodeMemory> node(new NodeMemory(std::move(*segment), groups));
  attempt([&] { node->presence_.Enter(); });
  error = FirstProblem(controller, problem);
  return error.empty() ? std::move(node) : nullptr;
}

NodeMemory::~NodeMemory() { presence_.Leave(); }

std::string NodeMemory::Missing() const {
  const int index = presence_.Missing();
  return index < 0 ? "" : "rank " + std::to_string(ranks_[index]) + " is gone";
}

}  // namespace horovod_opt
