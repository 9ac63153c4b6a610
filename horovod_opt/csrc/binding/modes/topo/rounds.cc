#include "horovod_opt/csrc/binding/modes/topo/rounds.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "horovod_opt/csrc/core/waiting/sleep.h"

namespace horovod_opt {
namespace {

using Clock = std::chrono::steady_clock;

// A request of another group is noticed at the latest after so long, or after this part of the time
// since the last request if that is longer.
constexpr std::chrono::milliseconds kLongestListening(10);
constexpr int kPartOfQuiet = 20;
// How long a rank waits for a round before it looks whether one can still come.
constexpr std::chrono::milliseconds kLookAgain(100);
// Between nodes a round that nobody wants costs more, and a connection that has ended is noticed
// without one.
constexpr int kHeartbeatsBetweenNodes = 10;

}  // namespace

Rounds::Rounds(std::chrono::milliseconds heartbeat, HorovodOps& horovod_ops,
               std::function<bool()> wants_round, std::function<void()> check)
    : heartbeat_(heartbeat),
      horovod_ops_(horovod_ops),
      wants_round_(std::move(wants_round)),
      check_(std::move(check)) {}

void Rounds::Connect(NodeMemory* node, bool other_groups, bool leader) {
  node_ = node;
  other_groups_ = other_groups;
  leader_ = leader;
  if (node != nullptr) doorbell_ = &node->doorbell();
}

void Rounds::ConnectGroups(ProgressEngine& engine) {
  if (!engine.CanSignal()) return;
  std::lock_guard<std::shared_mutex> lock(close_mutex_);
  notifies_groups_ = true;
  engine_ = &engine;
  if (notified_round_ > 0) engine.Signal(notified_round_);
}

void Rounds::Request() {
  std::shared_lock<std::shared_mutex> lock(close_mutex_);
  if (doorbell_ != nullptr) Request(round_ + 1);
}

void Rounds::Hear(std::uint64_t round) {
  std::shared_lock<std::shared_mutex> lock(close_mutex_);
  if (doorbell_ == nullptr) return;
  // Of several numbers only the greatest may have come; each round needs an entry of its own.
  for (std::uint64_t next = round_ + 1; next <= round; ++next) Request(next);
}

void Rounds::Request(std::uint64_t round) {
  if (!doorbell_->Signal(round)) return;
  if (in_queue_) node_->ready().Ready(ReadyQueue::kRoundId, 1);
  NotifyGroups(round);
}

void Rounds::NotifyGroups(std::uint64_t round) {
  std::uint64_t notified = notified_round_;
  while (notified < round && !notified_round_.compare_exchange_weak(notified, round)) continue;
  if (engine_ != nullptr) engine_->Signal(round);
}

void Rounds::Begin(std::chrono::nanoseconds rest) {
  const auto start = Clock::now();
  const std::uint64_t round = round_ + 1;
  since_ = start;
  waits_ = true;
  Await(round);
  since_ = Clock::now();
  waits_ = false;
  rest -= Clock::now() - start;
  if (rest.count() > 0) SleepFor(rest);
  round_ = round;
}

void Rounds::Await(std::uint64_t round) {
  if (wants_round_()) Request(round);
  if (!in_queue_) {
    if (!doorbell_->Wait(round, LongestWait(), never_)) Request(round);
    return;
  }
  auto deadline = Clock::now() + LongestWait();
  while (!horovod_ops_.PerformUntilRound()) {
    if (horovod_ops_.Wait(deadline)) continue;
    Request(round);
    check_();
    deadline = Clock::now() + kLookAgain;
  }
}

std::chrono::nanoseconds Rounds::LongestWait() {
  if (!other_groups_) return heartbeat_;
  if (notifies_groups_) return kHeartbeatsBetweenNodes * heartbeat_;
  const auto wait = std::min<std::chrono::nanoseconds>(heartbeat_, listen_time_);
  const std::chrono::nanoseconds quiet = Clock::now() - last_want_;
  const auto most = std::max<std::chrono::nanoseconds>(kLongestListening, quiet / kPartOfQuiet);
  listen_time_ = std::min(2 * listen_time_, most);
  return wait;
}

void Rounds::ExpectMore() {
  listen_time_ = kFirstListening;
  last_want_ = Clock::now();
}

void Rounds::EnterQueue() {
  in_queue_ = true;
  // Whoever has asked for the next round so far has put nothing into the queue.
  if (leader_) node_->ready().Ready(ReadyQueue::kRoundId, 1);
}

void Rounds::DumpState(StatePage& page) {
  const bool waits = waits_;
  const std::uint64_t round = round_ + (waits ? 1 : 0);
  const std::string number = std::to_string(round), age = page.Age(since_);
  page.Fact({"round", waits ? "waits" : "in", number, page.Milliseconds(since_)});
  page.Under(std::shared_lock<std::shared_mutex>(close_mutex_, std::defer_lock), "rounds", [&] {
    if (doorbell_ == nullptr) return page.Line(0, "no rounds of negotiation any more: shutdown");
    if (!waits) {
      return page.Line(0, "background thread: in round " + number + " of negotiation, " + age);
    }
    const bool wanted = doorbell_->Requested() >= round;
    const bool by_this_rank = wanted && notified_round_ >= round;
    page.Line(0, "background thread: waits for round " + number + " of negotiation, " + age +
                     (!wanted        ? "; no rank that shares memory has asked for it"
                      : by_this_rank ? "; this rank has asked for it first"
                                     : "; another rank has asked for it first") +
                     (in_queue_ ? "; rounds are entries of the ready queue" : ""));
  });
}

void Rounds::Close() {
  std::lock_guard<std::shared_mutex> lock(close_mutex_);
  doorbell_ = nullptr;
  engine_ = nullptr;
}

}  // namespace horovod_opt
