// A meeting of the ranks of a group: who has nothing else in common yet, as shared memory or
// connections, agrees on how to get it.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {

// Collective: all ranks make the same calls in the same order.
class RankMeeting {
 public:
  virtual ~RankMeeting() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Every rank's text, by rank, on every rank.
  virtual std::vector<SharedText> Gather(const std::string& text) = 0;

  // Takes a step on every rank: no rank goes on before all have ended it. True if none has thrown
  // and `error` is empty, else that is the first problem, as "rank 3: no memory".
  bool TakeStep(const std::function<void()>& step, std::string& error) {
    std::string problem;
    try {
      step();
    } catch (const std::exception& failure) {
      problem = failure.what();
      if (problem.empty()) problem = "an error without a text";
    }
    const auto problems = Gather(problem);
    error.clear();
    for (std::size_t rank = 0; rank < problems.size(); ++rank) {
      if (problems[rank].str().empty()) continue;
      error =
          "rank " + std::to_string(NameOf(static_cast<int>(rank))) + ": " + problems[rank].str();
      return false;
    }
    return true;
  }

  // The number by which people know a rank.
  virtual int NameOf(int rank) const { return rank; }
};

}  // namespace horovod_opt
