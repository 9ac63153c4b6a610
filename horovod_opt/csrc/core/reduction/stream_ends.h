// Futures of collectives on a GPU: who awaits one lets its stream wait for an event, and its thread
// goes on, as with c10d's Work of NCCL.
//
// A handle is done when its collective has been begun on Horovod's stream, not when it is over.
//
// 1. The stream that waits is that of the thread that awaits the handle, when it does. Neither the
//    thread that has begun the collective makes its own stream wait, which nobody else works on, nor
//    does the stream of the call wait before that: what a backward pass puts there meanwhile is not
//    to wait for a sum.
// 2. Memory that is freed early belongs to a stream that waits for the event. PyTorch gives memory
//    back to the stream on which it was allocated, and gives it out to whoever is next there. The
//    tensors of a handle are held until it is awaited; then the stream of the call waits, too, as
//    that is where they are from.
// 3. An event of a collective that was aborted looks like success. So elastic jobs, in which an
//    error is to be seen and survived, wait on the host; and so does whoever looks at when a
//    collective is over (the timeline, autotuning), or frees what it uses (autotuning).
#pragma once

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace horovod_opt {

// `Gpu` has types Stream, with ==, and Event; Current(device), the stream that this thread works on,
// and Wait(stream, event), by which the stream waits and not the thread. Threads: all.
template <class Gpu>
class StreamEnds {
 public:
  using Stream = typename Gpu::Stream;
  using Event = typename Gpu::Event;

  // By the thread that calls the collective, before that is handed over.
  void Begin(int handle, int device) {
    End end{device, Gpu::Current(device), {}};
    std::lock_guard<std::mutex> guard(mutex_);
    ends_.insert_or_assign(handle, std::move(end));
  }

  // `event` was recorded behind a collective of the handle. Before the handle is done.
  void Add(int handle, Event event) {
    std::lock_guard<std::mutex> guard(mutex_);
    const auto end = ends_.find(handle);
    if (end != ends_.end()) end->second.events.push_back(std::move(event));
  }

  // Once the handle is done, or will never be.
  void Await(int handle) {
    std::unique_lock<std::mutex> guard(mutex_);
    auto end = ends_.extract(handle);
    guard.unlock();
    if (end.empty() || end.mapped().events.empty()) return;
    const Stream here = Gpu::Current(end.mapped().device);
    const Stream& caller = end.mapped().caller;
    for (const Event& event : end.mapped().events) {
      Gpu::Wait(here, event);
      if (!(caller == here)) Gpu::Wait(caller, event);
    }
  }

  // No handle of before is awaited any more.
  void Clear() {
    std::lock_guard<std::mutex> guard(mutex_);
    ends_.clear();
  }

 private:
  struct End {
    int device;
    Stream caller;
    std::vector<Event> events;  // several of a group that was not fused
  };
  std::mutex mutex_;
  std::unordered_map<int, End> ends_;
};

}  // namespace horovod_opt
