// Timelines of all ranks (HOROVOD_OPT_TIMELINE_RANKS): each rank writes upstream's into a file of
// its own, with rows for what a rank waits for. `horovod-opt trace` makes one of them.
#pragma once

#include <chrono>
#include <string>

namespace horovod {
namespace common {
class Timeline;
}
}  // namespace horovod

namespace horovod_opt {

// Whether this rank writes a timeline, now that hvd.init() opens them.
bool HasTimeline(horovod::common::Timeline& timeline, bool is_coordinator);

// The file of this rank, where rank 0 writes to `file`; empty stays empty.
std::string TimelineFile(const std::string& file, int rank);

// Members of a JSON object, behind others, with what aligns the clocks of several ranks; empty
// where rank 0 alone has a timeline. `start`: when the timeline's time began.
std::string TimelineClock(std::chrono::steady_clock::time_point start);

// Whether AddToTimeline() does anything: one load, for those who would have to build a name.
bool TimelineHasSpans();

// A span in the row `row` of this rank's timeline, where every rank has one.
void AddToTimeline(const std::string& row, const std::string& name,
                   std::chrono::steady_clock::time_point begin,
                   std::chrono::steady_clock::time_point end);

}  // namespace horovod_opt
