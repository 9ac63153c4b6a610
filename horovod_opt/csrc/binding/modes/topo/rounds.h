// Negotiation on demand, in mode topo: a round begins on request, instead of in every cycle.
//
// The ranks of a group wake each other by a doorbell in their memory. It is not heard in other
// groups. Over TCP, whoever is the first of a group to request a round, or to hear of it, tells the
// groups next to it, so that all have heard of it after a few hops, and each has been told by each
// neighbour at most once. MPI cannot wait for such a message asleep: there each rank looks now and
// then, soon after a request and later less often. Where Horovod's own operations reduce planned
// tensors, a round has a place among their buckets: it is an entry of the ready queue
// (horovod_ops_gpu.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <shared_mutex>

#include "horovod_opt/csrc/binding/reduction/horovod_ops_gpu.h"
#include "horovod_opt/csrc/binding/reduction/node_memory.h"
#include "horovod_opt/csrc/core/network/progress_engine.h"
#include "horovod_opt/csrc/core/shared_memory/doorbell.h"

namespace horovod_opt {

class Rounds {
 public:
  // If nobody wants a round, one comes after `heartbeat`. `wants_round`: this rank has a reason for
  // one. `check` throws if this rank cannot go on, or the others cannot.
  Rounds(std::chrono::milliseconds heartbeat, HorovodOps& horovod_ops,
         std::function<bool()> wants_round, std::function<void()> check);

  // The group's memory, nullptr: there is none. `leader`: on the first rank of the group. Before
  // the first round.
  void Connect(NodeMemory* node, bool other_groups, bool leader);
  // Requests go through these, if they can, until Close(). Before the first round.
  void ConnectGroups(ProgressEngine& engine);

  // Any rank of the group wants the next round. Any thread.
  void Request();
  // Another group wants this round. Any thread.
  void Hear(std::uint64_t round);

  // --- the background thread ---
  // Waits until a round is wanted by any rank of the group or is due, but not before the cycle that
  // the last one began is over; `rest` is left of it.
  void Begin(std::chrono::nanoseconds rest);
  // This round was wanted by some rank: more are likely.
  void ExpectMore();
  bool in_queue() const { return in_queue_; }
  // From now on rounds are entries of the ready queue. On every rank in the same round.
  void EnterQueue();

  // Which round the background thread waits for or is in, and who wants it. Any thread.
  void DumpState(StatePage& page);

  // The memory and the connections go away.
  void Close();

 private:
  static constexpr std::chrono::milliseconds kFirstListening{1};

  void Request(std::uint64_t round);
  void NotifyGroups(std::uint64_t round);
  void Await(std::uint64_t round);
  std::chrono::nanoseconds LongestWait();

  const std::chrono::milliseconds heartbeat_;
  HorovodOps& horovod_ops_;
  const std::function<bool()> wants_round_;
  const std::function<void()> check_;
  NodeMemory* node_ = nullptr;
  bool other_groups_ = true, leader_ = false, notifies_groups_ = false;
  // Until the next look whether other groups want a round.
  std::chrono::nanoseconds listen_time_{kFirstListening};
  std::chrono::steady_clock::time_point last_want_ = std::chrono::steady_clock::now();
  Doorbell own_doorbell_;                // where there is no memory at all
  std::atomic<std::uint64_t> round_{0};  // the last one begun
  // For DumpState(): the thread waits for the next one; since when it does, or does not.
  std::atomic<bool> waits_{false};
  std::atomic<std::chrono::steady_clock::time_point> since_{};
  std::atomic<bool> in_queue_{false};
  const std::atomic<bool> never_{false};

  // The last one that this rank was the first to tell other groups of.
  std::atomic<std::uint64_t> notified_round_{0};

  std::shared_mutex close_mutex_;  // protects what follows
  Doorbell* doorbell_ = &own_doorbell_;
  ProgressEngine* engine_ = nullptr;
};

}  // namespace horovod_opt
