// Numbering of calls without a name, by program order alone: which of them are one call, and which
// lane of its plan each takes.
//
// Upstream numbers such calls, so that no name comes twice. But a program makes them in the same
// order on every rank. So the n-th call of one signature (kind, type, shape, reduction) is the same
// call everywhere, whenever it comes. The calls of a signature take kLanes lanes in turn, and each
// lane is planned as a call that recurs (recurring_calls.h).
//
// Rules (each with a test that fails without it):
// 1. A lane has one call under way. The next one of the lane waits until that is done, also before
//    anything is planned; others of the signature do not wait for it. A call is waited for only by
//    later ones, which every rank makes later, so nobody waits in a circle.
// 2. Lanes are planned from kLanes calls after the one in whose response all ranks decide it. That
//    one is not done yet, so by rule 1 no rank has sent any of those, however far it is ahead; what
//    comes before is negotiated on every rank.
// 3. Numbers count from a call that all ranks know: that of the decision. So they are the same
//    wherever a rank has begun to count.
// 4. A signature of which nothing is planned or under way costs nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "horovod_opt/csrc/core/base/rank_texts.h"

namespace horovod_opt {

// Any thread. What it calls, it calls without locks, but for `describe` and `wait`.
class UnnamedCalls {
 public:
  using Clock = std::chrono::steady_clock;

  // So many of a signature are under way at a time: one does not wait for the whole way of another.
  static constexpr int kLanes = 4;
  static constexpr int kNegotiated = -1;

  // A call that is sent now.
  struct Turn {
    std::uint64_t call = 0;  // for Leave()
    int lane = kNegotiated;
    std::int64_t number = 0;  // where it has a lane: the same on every rank
  };
  // Sends a call that has waited. False: it has failed, and Leave() is not called for it.
  using Send = std::function<bool(const Turn& turn)>;

  // The next call. Nothing: it waits, and is sent by what `wait` returns, which is called under a
  // lock. `number`: upstream's. `describe`: for people, beginning with the kind; of a signature
  // that is new.
  std::optional<Turn> Enter(std::int64_t signature, std::uint64_t number,
                            const std::function<std::string()>& describe,
                            const std::function<Send()>& wait);
  // One that is never planned.
  void Pass();
  // It is done, or has failed. Sends the next one of its lane.
  void Leave(std::uint64_t call);

  // The call with upstream's `number` is about to be performed, and its signature has become
  // planned: on all ranks in the same response. `drop`: gives the plans up.
  void Plan(std::int64_t signature, std::uint64_t number, std::function<void()> drop);
  // It is not planned any more, on any rank. Does nothing if it was not.
  void Drop(std::int64_t signature);
  void DropAll();

  // --- order ---
  // What this rank waits for since before `since`: a line for each call. Empty while nothing was
  // ever planned.
  std::string Waiting(Clock::time_point since) const;
  // By rank; which rank waits for what, where they wait for different calls under one number that
  // upstream names differently, so that it would wait forever. Empty: they do not.
  static std::string Disorder(const TextByRank& waiting);

 private:
  struct Call {
    std::int64_t signature = 0;
    std::uint64_t place = 0;  // among those of its signature
    std::uint64_t number = 0;
    Clock::time_point since;
  };
  struct Held {
    std::uint64_t call;
    Send send;
  };
  struct Lane {
    bool busy = false;
    std::deque<Held> held;
  };
  struct Signature {
    std::string text;
    std::uint64_t calls = 0;      // so many have come
    std::uint64_t under_way = 0;  // or held
    Lane lanes[kLanes];
    std::optional<std::uint64_t> origin;  // the place of the call of the decision
    std::uint64_t origin_call = 0;
    std::function<void()> drop;
  };

  Turn TurnOf(std::uint64_t call, const Call& known, const Signature& signature) const;
  std::optional<Held> Next(std::uint64_t call);  // takes it from its lane
  void ForgetIfIdle(std::int64_t signature);

  mutable std::mutex mutex_;  // protects what follows
  std::uint64_t calls_ = 0;
  std::uint64_t origin_ = 0;  // the call of the last decision, 0: there was none
  std::map<std::uint64_t, Call> under_way_;
  std::unordered_map<std::int64_t, Signature> signatures_;
};

}  // namespace horovod_opt
