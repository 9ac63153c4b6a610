// The real presence of ranks, which die at the word of the exploration.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/presence.h"

namespace horovod_opt {
namespace exploration {

class GroupPresence {
 public:
  explicit GroupPresence(int ranks) : memory_(std::aligned_alloc(64, Presence::Bytes(ranks))) {
    std::memset(memory_.get(), 0, Presence::Bytes(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      presences_.emplace_back(memory_.get(), rank, ranks);
      presences_.back().Enter();
    }
    is_here_.assign(ranks, true);
  }
  ~GroupPresence() {
    for (std::size_t rank = 0; rank < presences_.size(); ++rank) {
      if (is_here_[rank]) presences_[rank].Close();
    }
  }

  // As a process does: the thread that holds the rank's mutex ends, and does not give it up.
  void Die(int rank) {
    presences_[rank].Close();
    std::thread([this, rank] { presences_[rank].Enter(); }).join();
    is_here_[rank] = false;
  }
  // Whom the rank misses; -1: nobody.
  int MissedBy(int rank) const { return presences_[rank].Missing(); }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::vector<Presence> presences_;
  std::vector<bool> is_here_;
};

}  // namespace exploration
}  // namespace horovod_opt
