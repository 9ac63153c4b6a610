// Background thread, upstream's: what it calls at its start and end, and once a cycle.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "horovod_opt/csrc/binding/reduction/horovod_ops_gpu.h"
#include "horovod_opt/csrc/core/base/float_environment.h"

namespace horovod {
namespace common {
struct HorovodGlobalState;
struct ProcessSet;
struct TensorTableEntry;
class Response;
}  // namespace common
}  // namespace horovod

namespace horovod_opt {

// Lives as long as the background thread does. What upstream and MPI compute there, and whichever
// threads it starts, keeps denormals, whatever the thread does that has called hvd.init().
class BackgroundThread {
 public:
  BackgroundThread();
  ~BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

 private:
  const FloatEnvironment environment_;
};

// Once the ranks can talk and before the first cycle: agrees on the settings and applies them.
// Collective. Throws std::runtime_error on every rank alike if any rank cannot go on.
// `perform`: upstream's function that performs a response.
void Start(horovod::common::HorovodGlobalState& horovod, PerformOperation perform);

// At the start of every cycle: sleeps `local`, the rest of the cycle time (negative: none), or what
// the mode makes of it. Collective in modes gs and topo.
void Pace(horovod::common::HorovodGlobalState& horovod, std::chrono::nanoseconds local);

// After the last cycle, which all ranks leave together. Collective.
void Finish(horovod::common::HorovodGlobalState& horovod);

// However the loop has ended, and while MPI and Gloo are still there.
void Close();

// Handlers of exit() and fork().
//
// Python's exit shuts Horovod down. exit() of C, called by a library or past Python, does not; so
// from now on it does the same, but waits for the other ranks no longer than 10 s, since whoever
// calls it may hold what the thread needs (Python's lock). Whatever the thread uses lives as long
// as the process: a patch and this library allocate it and never free it, so that a thread that is
// late does no harm.
//
// A child that this process forks has none of its threads. There, everything that asks who this
// rank is goes on working, and everything else that would wait for the thread or touch the memory
// that the ranks share returns the error of a Horovod that has been shut down.
void WatchProcess(horovod::common::HorovodGlobalState& horovod);

// Whether upstream's operations are of one tensor each, whatever is ready: HOROVOD_DISABLE_GROUP_FUSION
// in mode topo. Of the background thread.
//
// Elsewhere upstream fuses the tensors of a group then, and each rank looks for groups among those
// that it has registered itself. In mode topo ranks may have registered others for the same tensors:
// where a plan ends, one rank has handed a whole group to upstream, another some of it singly.
bool KeepsTensorsApart();

// Upstream is about to perform `response`. If its tensors are planned, which upstream's queue does
// not know, puts them into `entries` and returns true.
bool TakePlannedEntries(const horovod::common::Response& response,
                        std::vector<horovod::common::TensorTableEntry>& entries);

// Upstream has negotiated `response` and is about to perform it; its tensors and their groups are
// still in their tables.
void LearnCalls(const horovod::common::Response& response,
                horovod::common::ProcessSet& process_set);

// Lives while upstream performs `response`. Counts that time, and the bytes of this rank's tensors,
// as moving data.
class DataScope {
 public:
  DataScope(const horovod::common::Response& response,
            const std::vector<horovod::common::TensorTableEntry>& entries);
  ~DataScope();
  DataScope(const DataScope&) = delete;
  DataScope& operator=(const DataScope&) = delete;

 private:
  std::chrono::steady_clock::time_point start_;
  std::int64_t bytes_ = 0;
};

}  // namespace horovod_opt
