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

std::size_t DoorbellBytes() { return Rounded(sizeof(Doorbell)); }
std::size_t LogBytes() { return Rounded(ReadyLog::Bytes()); }

std::string NewName() {
  std::random_device random;
  return "/horovod-opt-" + std::to_string(getpid()) + "-" + std::to_string(random());
}

}  // namespace

NodeMemory::NodeMemory(SharedSegment segment, int rank, int ranks)
    : segment_(std::move(segment)),
      doorbell_(static_cast<Doorbell*>(segment_.data())),
      log_(reinterpret_cast<ReadyLog*>(static_cast<char*>(segment_.data()) + DoorbellBytes())),
      allreduce_(static_cast<char*>(segment_.data()) + DoorbellBytes() + LogBytes(),
                 segment_.size() - DoorbellBytes() - LogBytes(), rank, ranks) {}

std::unique_ptr<NodeMemory> NodeMemory::Share(horovod::common::Controller& controller,
                                              std::string& error) {
  const auto& node = controller.GetLocalCommRanks();
  const int ranks = static_cast<int>(node.size());
  const int rank = controller.GetLocalRank();
  const std::size_t bytes = DoorbellBytes() + LogBytes() + NodeAllreduce::Bytes(ranks);

  // The first rank of the node makes the segment, the others open it, then its name goes.
  std::optional<SharedSegment> segment;
  std::string name;
  std::string problem;
  const auto attempt = [&](auto&& make) {
    try {
      segment.emplace(make());
    } catch (const std::exception& failure) {
      problem = failure.what();
    }
  };
  if (rank == 0) {
    name = NewName();
    attempt([&] { return SharedSegment::Create(name, bytes); });
  }
  name = GatherRows(controller, name)[node[0]];
  if (rank != 0) attempt([&] { return SharedSegment::Open(name, bytes); });
  const auto problems = GatherRows(controller, problem);
  if (segment) segment->Unlink();
  for (std::size_t one = 0; one < problems.size(); ++one) {
    if (problems[one].empty()) continue;
    error = "rank " + std::to_string(one) + ": " + problems[one];
    return nullptr;
  }
  return std::unique_ptr<NodeMemory>(new NodeMemory(std::move(*segment), rank, ranks));
}

}  // namespace horovod_opt
