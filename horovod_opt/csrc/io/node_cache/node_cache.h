// The node cache, a shared-memory cache of chunks, as one process sees it: who has done which
// steps, what is loaded, and whether all has ended.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "horovod_opt/csrc/io/node_cache/node_cache_memory.h"

namespace horovod_opt {
namespace io {

// Steps are numbered on over epochs. A rank is done with a step when it has taken all that it needs
// of it. Its workers may be done with steps in any order, up to kMarks ahead.
class NodeCache {
 public:
  static constexpr std::int64_t kAnyChunk = -1;

  explicit NodeCache(NodeCacheMemory memory) : memory_(std::move(memory)) {}

  NodeCacheMemory& memory() { return memory_; }
  const NodeCacheMemory& memory() const { return memory_; }

  // False: the step is kMarks or more after the first one that is not done, and nothing changes.
  bool Done(std::int64_t rank, std::int64_t step);
  // The rank is done with all steps before this one.
  void SkipTo(std::int64_t rank, std::int64_t step);
  // The rank needs nothing more.
  void Leave(std::int64_t rank);
  bool HasLeft(std::int64_t rank) const;
  // The first step that some rank is not done with.
  std::int64_t LowestStep() const;

  // The chunk of a load can be read from the chunk buffer; or cannot any more. `chunk`: which one,
  // if anybody compares it; `last`: the last step that needs it.
  void Publish(std::int64_t load, std::int64_t buffer, std::int64_t chunk = kAnyChunk,
               std::int64_t last = 0);
  void Withdraw(std::int64_t load);

  enum class Presence { kNotYet, kThere, kOver };
  Presence Look(std::int64_t load) const;

  enum class Arrival { kThere, kOver, kTimeout, kEnded };
  // Sleeps until the load is there. The time counts as the rank's.
  Arrival Await(std::int64_t load, std::int64_t rank, EventCount::Clock::time_point deadline);

  // Ends it for all processes, and for this one. Whoever waits is woken; the first reason stays.
  void EndForAll(End why, std::int64_t dead_rank);
  void EndHere(End why);
  End end() const;

  // Ends it for all processes, because the reader cannot go on. A longer text is cut.
  //
  // Invariants: (1) only the first one to claim the text writes it; (2) the end comes after the
  // text; (3) the text is read only behind that end. So whoever reads it has all of it, and its
  // threads may fail at once.
  void Fail(const std::string& text);
  // What Fail() was told; empty unless end() is kFailed.
  std::string failure() const;

  // Set when end() is not kNone, for this process's waits.
  const std::atomic<bool>& ended_here() const { return ended_here_; }

 private:
  // The lowest step may have changed from `before` on.
  void NotifyIfLowest(std::int64_t before);

  NodeCacheMemory memory_;
  std::atomic<End> end_here_{End::kNone};
  std::atomic<bool> ended_here_{false};
};

}  // namespace io
}  // namespace horovod_opt
