// Collectives in program order: the calls of the ranks of a group, which all make the same calls in
// the same order, without names, plans or negotiation. It is what c10d asks for.
//
// Who waits, works: a call is put into the rank's list, and whoever waits for it performs the list up
// to it, one call after the other. The group's thread performs those for which somebody may wait
// otherwise, as for a future.
//
// Of little data, on one host, a rank puts its contribution into the memory when it makes the call, if
// it has ended all others; so who waits last finds all of them. See bucket_places.h, whose turns are
// counted by the small calls of the group.
//
// Invariants (each with a test that fails without it):
// 1. A call's way (place or list) follows from its kind and its bytes alone, which are equal on all
//    ranks: nothing is learned, measured or free.
// 2. No group waits for another: each has its own memory, numbers and thread.
// 3. No lock is held, and nobody performs the list, while a call's `ended` runs: it may make and
//    await calls of the same group.
// 4. Calls begin in the order of their numbers, each when the one before has ended.
// 5. A group is broken for all ranks or for none: who breaks it writes why on the board, and others
//    of the host find it within a tenth of a second. Then every call ends with that text. Of several
//    hosts the text is settled first, and then the connections are closed (host_links.h).
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/agreement/meeting.h"
#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/network/groups.h"
#include "horovod_opt/csrc/core/ordered_calls/call_board.h"
#include "horovod_opt/csrc/core/ordered_calls/group_notes.h"
#include "horovod_opt/csrc/core/ordered_calls/hierarchical_collectives.h"
#include "horovod_opt/csrc/core/ordered_calls/host_links.h"
#include "horovod_opt/csrc/core/ordered_calls/watch.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_places.h"
#include "horovod_opt/csrc/core/shared_memory/presence.h"
#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"
#include "horovod_opt/csrc/core/waiting/spin_history.h"

namespace horovod_opt {

// The group cannot go on; what() says which call, and which ranks.
class GroupBroken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One call of this rank. The caller fills in the first part.
struct OrderedCall {
  using Clock = std::chrono::steady_clock;

  CallFacts facts;
  std::shared_ptr<const BucketReduction> reduction;  // an allreduce
  // Any other collective; false if it was stopped.
  std::function<bool(HierarchicalCollectives&, const HierarchicalCollectives::Call&)> perform;
  std::function<void()> complete;                 // by who has performed it, with the result there
  std::function<void(std::exception_ptr)> ended;  // last of all, once; null: it has succeeded
  std::chrono::milliseconds timeout{0};

  // The group's.
  std::uint64_t number = 0;
  Clock::time_point since;
  Turn turn;
  std::uint64_t tag = 0;
  bool is_written = false;  // on the board
  bool is_noted = false;    // for other hosts
  bool is_wanted = false;   // by who may wait for it otherwise
  bool is_done = false;
  std::exception_ptr error;
};
using OrderedCallPtr = std::shared_ptr<OrderedCall>;

class OrderedGroup final : public Watched, public std::enable_shared_from_this<OrderedGroup> {
 public:
  using Clock = OrderedCall::Clock;

  // Where this rank is.
  struct Site {
    std::string host;                      // equal where ranks may share memory
    std::function<std::string()> address;  // numeric, by which other hosts reach it; it may throw
    int most = 0;                          // ranks that share memory; 0: all of a host
    std::shared_ptr<GroupNotes> notes;     // of groups on several hosts
  };

  // Collective over the meeting, whose ranks are the group's. `name`: for people. Null, and the same
  // `error` on all ranks: it cannot be. A group and an `error`: so its ranks exchange messages, though
  // they are on one host.
  static std::shared_ptr<OrderedGroup> Start(RankMeeting& meeting, const std::string& name,
                                             const Site& site, std::string& error);
  ~OrderedGroup() override;

  int hosts() const { return static_cast<int>(groups_.cross.size()); }

  // Makes a call; it may have ended when this returns. `wakes`: somebody may wait for it otherwise
  // than by Await(). Throws GroupBroken in a forked child.
  void Make(const OrderedCallPtr& call, bool wakes);
  // Returns when it has ended; its error is in the call. `timeout`: from now on; the group is broken
  // then. 0: the call's own.
  void Await(const OrderedCallPtr& call, std::chrono::milliseconds timeout);
  bool HasEnded(const OrderedCallPtr& call) const;

  // All calls, also those to come, end with an error on all ranks.
  void Abort(const std::string& text);
  // No more calls: the others may go on with what they are at. Its thread ends.
  void Leave();

  void LookAfter() override;
  void LeaveAtExit() override { Leave(); }

  // Up to so many bytes over all ranks of one host a call goes through a place.
  static constexpr std::int64_t kSmall = BucketPlaces::kMost;

 private:
  static constexpr int kPlaces = 8;

  OrderedGroup(SharedSegment segment, const RankMeeting& meeting, std::string name, Groups groups,
               std::unique_ptr<Transport> transport, std::shared_ptr<GroupNotes> notes);
  static std::size_t HeadBytes(int ranks);

  bool IsSmall(const OrderedCall& call) const;
  void Write(OrderedCall& call);
  bool Contribute(OrderedCall& call);
  bool Perform(OrderedCall& call);
  bool ReduceInPlace(OrderedCall& call);
  void PerformFirst(std::unique_lock<std::mutex>& lock);
  void End(const OrderedCallPtr& call, std::exception_ptr error,
           std::unique_lock<std::mutex>& lock);
  void Run();
  // With mutex_ held, until another call can begin.
  void Break(const std::string& text);

  // --- what keeps a call from going on: ordered_group_trouble.cc ---
  std::string FindTrouble();
  std::string TextOf(std::exception_ptr error, OrderedCall& call);
  void Note(OrderedCall& call);
  void NoteIfSlow(OrderedCall& call);
  std::string HowHostsDiffer(OrderedCall& call);
  std::vector<int> Missing(const OrderedCall& call);
  std::string Describe(const OrderedCall& call) const;
  std::string Difference(const OrderedCall& call, int other, const CallFacts& facts) const;
  // By which people know them, ascending.
  std::vector<int> NamesIn(const std::vector<int>& ranks) const;
  std::string NamesOf(const std::vector<int>& ranks) const;
  // Of the group, the `number`-th that shares memory with this one.
  int RankOf(int number) const { return groups_.ranks[static_cast<std::size_t>(number)]; }

  const SharedSegment segment_;
  const std::string name_;
  std::vector<int> names_;  // of the group's ranks, for people
  const Groups groups_;     // a group's ranks are those of a host, or some of them
  const int rank_;          // among them, as in all that is about memory
  const int ranks_;
  const int process_;
  const bool may_spin_;
  Presence presence_;
  CallBoard board_;
  BucketPlaces places_;
  NodeCollectives node_;
  const std::shared_ptr<GroupNotes> notes_;
  const std::unique_ptr<HostLinks> links_;  // null on one host
  HierarchicalCollectives collectives_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<OrderedCallPtr> list_;  // made and not begun
  OrderedCallPtr current_;           // being performed
  std::uint64_t made_ = 0;           // calls
  std::uint64_t small_ = 0;          // of them through a place
  std::uint64_t ended_ = 0;
  int wanted_ = 0;  // of the list, that the thread is to perform
  bool has_thread_ = false;
  bool has_left_ = false;
  int gone_ = -1, gone_looks_ = 0;  // a rank, and looks that have found it gone
  std::string broken_;
  std::atomic<bool> stop_{false};
  SpinHistory spins_;
  WaitCounts waits_;
};

}  // namespace horovod_opt
