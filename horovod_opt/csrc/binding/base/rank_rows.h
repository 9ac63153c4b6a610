// Allgather of texts, and agreement on them, built on the one collective that every controller has:
// the bitwise OR of words.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/agreement/meeting.h"
#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod {
namespace common {
class Controller;
}
}  // namespace horovod

namespace horovod_opt {

// Every rank's row, by rank, on every rank. Rows may differ in length. Takes 16 bytes a rank and
// the longest row for each distinct one, so it may be used with many ranks where few have a row of
// their own; two rows that differ, but neither in length nor in a hash of 64 bits, are taken for
// one.
std::vector<SharedText> GatherRows(horovod::common::Controller& controller, const std::string& row);

// The same by the number that a rank has in the job, where the controller is that of a process set.
TextByRank GatherByRank(horovod::common::Controller& controller, const std::string& row);

// What core asks for, of a controller's ranks, which are named by their numbers in the job.
class ControllerMeeting final : public RankMeeting {
 public:
  explicit ControllerMeeting(horovod::common::Controller& controller) : controller_(controller) {}
  int rank() const override;
  int ranks() const override;
  std::vector<SharedText> Gather(const std::string& text) override {
    return GatherRows(controller_, text);
  }
  int NameOf(int rank) const override;

 private:
  horovod::common::Controller& controller_;
};

// Takes a step on every rank: no rank goes on before all have ended it. True if none has thrown,
// else `error` is the first problem.
bool TakeStep(horovod::common::Controller& controller, const std::function<void()>& step,
              std::string& error);

// " Ranks 0, 2: ... Rank 1: ...", for messages; an empty row is a dash.
std::string ListRows(const TextByRank& rows);

// Whether all ranks have the same row and none has `failed`. Three words, however many ranks.
bool AllEqual(horovod::common::Controller& controller, const std::string& row, bool failed);

}  // namespace horovod_opt
