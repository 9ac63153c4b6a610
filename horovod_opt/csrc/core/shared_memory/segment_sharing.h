// Shared memory of the ranks of a group on one host: its first rank makes it and hands it to the
// others.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/agreement/meeting.h"
#include "horovod_opt/csrc/core/base/file_descriptor.h"
#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"

namespace horovod_opt {

// Equal where ranks may share memory: those of one user, on one host, in one network namespace.
std::string SharingDomain();

struct GroupSegment {
  SharedSegment memory;
  Descriptor file;  // of which pages can be allocated; none for a rank alone
};

// Collective over the meeting, whose ranks are in groups: `group` has this rank's, ascending. Every
// rank gets `bytes` zeroed bytes, the same on all ranks of a group, or none and the same `error`.
std::optional<GroupSegment> ShareSegment(RankMeeting& meeting, const std::vector<int>& group,
                                         std::size_t bytes, std::string& error);

}  // namespace horovod_opt
