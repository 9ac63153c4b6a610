// Scoped timer: the time in which the background thread waits for other ranks.
#pragma once

#include <chrono>

#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/report/rank_timeline.h"

namespace horovod_opt {

// Counts its lifetime. Stands at the top of every collective of the negotiation.
class WaitTimer {
 public:
  WaitTimer() : start_(std::chrono::steady_clock::now()) {}
  ~WaitTimer() {
    const auto now = std::chrono::steady_clock::now();
    GlobalState().counters.AddWait(now - start_);
    if (TimelineHasSpans() && now - start_ >= kShortestInTimeline)
      AddToTimeline("negotiation", "waits for other ranks", start_, now);
  }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  // Shorter ones, of which an idle job has thousands a second, are the cost of the messages.
  static constexpr std::chrono::microseconds kShortestInTimeline{200};

  std::chrono::steady_clock::time_point start_;
};

}  // namespace horovod_opt
