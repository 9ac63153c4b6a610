#include "horovod_opt/csrc/core/shared_memory/segment_sharing.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <utility>

#include "horovod_opt/csrc/core/shared_memory/segment_handover.h"

namespace horovod_opt {

std::string SharingDomain() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::array<char, 64> network{};
  const ssize_t length = readlink("/proc/self/ns/net", network.data(), network.size());
  return boot + " " +
         std::string(network.data(), length > 0 ? static_cast<std::size_t>(length) : 0) + " user " +
         std::to_string(geteuid());
}

// In the order that segment_handover.h asks for: no rank begins a step before all have ended the
// last one.
std::optional<GroupSegment> ShareSegment(RankMeeting& meeting, const std::vector<int>& group,
                                         std::size_t bytes, std::string& error) {
  const int ranks = static_cast<int>(group.size());
  const bool gives = ranks > 1 && group[0] == meeting.rank();
  const bool takes = ranks > 1 && !gives;
  std::optional<SharedSegment> memory;
  std::optional<SegmentGiver> giver;
  std::optional<SegmentTaker> taker;
  Descriptor file;
  std::string address;
  const bool creates = meeting.TakeStep(
      [&] {
        if (ranks == 1) memory.emplace(SharedSegment::Private(bytes));
        if (!gives) return;
        file = NewSegmentFile(bytes);
        memory.emplace(SharedSegment::Map(file, bytes));
        address = giver.emplace().address();
      },
      error);
  if (!creates) return std::nullopt;
  address = meeting.Gather(address)[group[0]];
  const auto ask = [&] {
    if (takes) taker.emplace(address);
  };
  const auto give = [&] {
    if (gives) giver->Give(file, ranks - 1);
  };
  const auto take = [&] {
    if (!takes) return;
    file = taker->Take();
    memory.emplace(SharedSegment::Map(file, bytes));
  };
  const bool maps = meeting.TakeStep(ask, error) && meeting.TakeStep(give, error) &&
                    meeting.TakeStep(take, error);
  if (!maps) return std::nullopt;
  return GroupSegment{std::move(*memory), std::move(file)};
}

}  // namespace horovod_opt
