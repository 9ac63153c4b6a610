#include "horovod_opt/csrc/core/shared_memory/segment_sharing.h"

#include <utility>

#include "horovod_opt/csrc/core/shared_memory/segment_handover.h"

namespace horovod_opt {

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
