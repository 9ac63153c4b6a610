// What the ranks of a group on several hosts tell each other about a call that does not go on, beside
// the connections over which it goes.
#pragma once

#include <string>
#include <vector>

namespace horovod_opt {

// Nothing waits for another rank, and nothing is thrown: where notes cannot be had, there are none.
class GroupNotes {
 public:
  virtual ~GroupNotes() = default;
  // This rank's note, instead of its last one.
  virtual void Write(const std::string& note) = 0;
  // By rank; empty: it has written none.
  virtual std::vector<std::string> Read() = 0;
  // The first text that any rank has given here, on all ranks.
  virtual std::string Settle(const std::string& text) = 0;
};

}  // namespace horovod_opt
