#include "horovod_opt/csrc/binding/report/rank_timeline.h"

#include <unistd.h>

#include <atomic>
#include <fstream>

#include "horovod/common/timeline.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/core/base/json_text.h"

namespace horovod_opt {
namespace {

using Clock = std::chrono::steady_clock;
using horovod::common::Timeline;

// Null where rank 0 alone has one, or none has. The timeline is part of upstream's global state,
// which is never freed.
std::atomic<Timeline*> every_ranks_timeline{nullptr};

// The same of all processes that see the same steady clock.
std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

bool HasTimeline(Timeline& timeline, bool is_coordinator) {
  const bool all = GlobalState().settings.timeline_ranks != 0;
  every_ranks_timeline = all ? &timeline : nullptr;
  return all || is_coordinator;
}

std::string TimelineFile(const std::string& file, int rank) {
  return rank == 0 || file.empty() ? file : file + ".rank-" + std::to_string(rank);
}

std::string TimelineClock(Clock::time_point start) {
  if (!TimelineHasSpans()) return "";
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  return ", \"rank\": " + std::to_string(state.rank) + ", \"size\": " + std::to_string(state.size) +
         ", \"host\": \"" + JsonText(HostName()) + "\", \"boot\": \"" + JsonText(BootId()) +
         "\", \"pid\": " + std::to_string(getpid()) + ", \"monotonic_ns\": " +
         std::to_string(std::chrono::nanoseconds(start.time_since_epoch()).count());
}

bool TimelineHasSpans() {
  return every_ranks_timeline.load(std::memory_order_relaxed) != nullptr;
}

void AddToTimeline(const std::string& row, const std::string& name, Clock::time_point begin,
                   Clock::time_point end) {
  if (Timeline* timeline = every_ranks_timeline.load(std::memory_order_relaxed))
    timeline->Span(row, JsonText(name), begin, end);
}

}  // namespace horovod_opt

extern "C" {

// For Python: in ns, as its time.monotonic_ns(). Without timelines of all ranks: nothing.
void horovod_opt_timeline_span(const char* row, const char* name, int64_t begin, int64_t end) {
  using Time = std::chrono::steady_clock::time_point;
  horovod_opt::AddToTimeline(row, name, Time(std::chrono::nanoseconds(begin)),
                             Time(std::chrono::nanoseconds(end)));
}

}  // extern "C"
