// Handlers of exit() and fork(): what becomes of upstream's background thread when its process ends
// or forks.
#pragma once

namespace horovod {
namespace common {
struct HorovodGlobalState;
}
}  // namespace horovod

namespace horovod_opt {

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

}  // namespace horovod_opt
