#include "horovod_opt/csrc/core/ordered_calls/ordered_group.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "horovod_opt/csrc/core/base/rounding.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"
#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "horovod_opt/csrc/core/shared_memory/segment_sharing.h"

namespace horovod_opt {
namespace {

constexpr std::chrono::microseconds kSpin(50);
constexpr int kLooks = 1000;  // for a text that takes no time to write
constexpr const char* kLoopback = "127.0.0.1";
constexpr std::chrono::seconds kPatience(60);  // with hosts that connect
int Cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

std::size_t OrderedGroup::HeadBytes(int ranks) {
  return static_cast<std::size_t>(
      WholeLines(static_cast<std::int64_t>(Presence::Bytes(ranks))) +
      WholeLines(static_cast<std::int64_t>(CallBoard::Bytes(ranks))) +
      WholeLines(static_cast<std::int64_t>(BucketPlaces::Bytes(ranks))));
}

OrderedGroup::OrderedGroup(SharedSegment segment, const RankMeeting& meeting, std::string name,
                           Groups groups, std::unique_ptr<Transport> transport,
                           std::shared_ptr<GroupNotes> notes)
    : segment_(std::move(segment)),
      name_(std::move(name)),
      groups_(std::move(groups)),
      rank_(groups_.index),
      ranks_(static_cast<int>(groups_.ranks.size())),
      process_(getpid()),
      may_spin_(Cores() >= ranks_),
      presence_(segment_.data(), rank_, ranks_),
      board_(static_cast<char*>(segment_.data()) +
                 WholeLines(static_cast<std::int64_t>(Presence::Bytes(ranks_))),
             rank_, ranks_),
      places_(static_cast<char*>(segment_.data()) + HeadBytes(ranks_) -
                  WholeLines(static_cast<std::int64_t>(BucketPlaces::Bytes(ranks_))),
              rank_, ranks_),
      node_(static_cast<char*>(segment_.data()) + HeadBytes(ranks_),
            segment_.size() - HeadBytes(ranks_), rank_, ranks_),
      notes_(std::move(notes)),
      links_(transport == nullptr
                 ? nullptr
                 : std::make_unique<HostLinks>(std::move(transport), hosts(), groups_.group)),
      collectives_(node_, groups_, links_.get()) {
  for (int rank = 0; rank < meeting.ranks(); ++rank) names_.push_back(meeting.NameOf(rank));
}

std::shared_ptr<OrderedGroup> OrderedGroup::Start(RankMeeting& meeting, const std::string& name,
                                                  const Site& site, std::string& error) {
  std::vector<int> node_of;
  std::map<std::string, int> numbers;
  for (const SharedText& host : meeting.Gather(site.host)) {
    node_of.push_back(numbers.emplace(host, static_cast<int>(numbers.size())).first->second);
  }
  const auto share = [&](const Groups& groups, std::string& problem) {
    const int ranks = static_cast<int>(groups.ranks.size());
    return ShareSegment(meeting, groups.ranks, HeadBytes(ranks) + NodeCollectives::Bytes(ranks),
                        problem);
  };
  Groups groups = MakeGroups(node_of, site.most, meeting.rank());
  std::string refusal;
  std::optional<GroupSegment> segment = share(groups, refusal);
  if (!segment) {
    groups = MakeGroups(node_of, 1, meeting.rank());
    segment = share(groups, error);
    if (!segment) return nullptr;
  }
  std::unique_ptr<Transport> transport;
  if (!groups.Alone()) {
    const int members = static_cast<int>(groups.cross.size());
    const bool on_one_host = numbers.size() == 1;
    const auto address = [&] { return on_one_host ? kLoopback : site.address(); };
    const auto attempt = [&] { TryAllreduce(*transport, members, groups.group, kPatience); };
    transport = ConnectWithTcp(meeting, groups, address, TcpTransport::Options(), kPatience, error);
    if (transport == nullptr || !meeting.TakeStep(attempt, error)) return nullptr;
  }
  std::shared_ptr<OrderedGroup> group;
  const auto enter = [&] {
    group.reset(new OrderedGroup(std::move(segment->memory), meeting, name, std::move(groups),
                                 std::move(transport), site.notes));
    watch::Do([&] { group->presence_.Enter(); });
  };
  if (!meeting.TakeStep(enter, error)) return nullptr;
  watch::Add(group);
  error = refusal;
  return group;
}

OrderedGroup::~OrderedGroup() {
  if (getpid() != process_) return;  // a child has neither the memory nor the thread
  Leave();
  watch::Do([&] { presence_.Close(); });
}

bool OrderedGroup::IsSmall(const OrderedCall& call) const {
  return links_ == nullptr && call.reduction && call.reduction->Bytes() * ranks_ <= kSmall;
}

void OrderedGroup::Make(const OrderedCallPtr& call, bool wakes) {
  if (getpid() != process_) {
    throw GroupBroken("group " + name_ +
                      " was made before this process was forked; remedy: call "
                      "init_process_group() in this process");
  }
  std::unique_lock<std::mutex> lock(mutex_);
  if (has_left_) throw GroupBroken("group " + name_ + " was destroyed; remedy: make another one");
  call->number = ++made_;
  call->since = Clock::now();
  call->tag = call->facts.Fingerprint(call->number);
  if (IsSmall(*call)) {
    const std::uint64_t count = small_++;
    call->turn.number = static_cast<int>(count % kPlaces);
    call->turn.place = call->turn.number * BucketPlaces::kMemory / kPlaces;
    call->turn.owner = 1;
    call->turn.count = static_cast<std::uint32_t>(count / kPlaces + 1);
  }
  const bool is_next = list_.empty() && current_ == nullptr && broken_.empty();
  if (is_next) {
    Write(*call);
    if (IsSmall(*call) && Contribute(*call) && places_.AllHaveContributed(call->turn)) {
      current_ = call;
      lock.unlock();
      std::exception_ptr error;
      try {
        Perform(*call);
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      return End(call, error, lock);
    }
  }
  list_.push_back(call);
  if (!wakes) return;
  call->is_wanted = true;
  ++wanted_;
  if (!has_thread_) {
    has_thread_ = true;
    std::thread([self = shared_from_this()]() mutable {
      self->Run();
      self.reset();
    }).detach();
  }
  changed_.notify_all();
}

void OrderedGroup::Write(OrderedCall& call) {
  if (call.is_written) return;
  board_.Write(call.number, call.tag, call.facts);
  call.is_written = true;
}

bool OrderedGroup::Contribute(OrderedCall& call) {
  return places_.HasContributed(call.turn) ||
         places_.Contribute(call.turn, *call.reduction, call.tag);
}

// False if it was stopped.
bool OrderedGroup::Perform(OrderedCall& call) {
  if (IsSmall(call)) {
    if (!ReduceInPlace(call)) return false;
  } else {
    const HierarchicalCollectives::Call made{call.tag, stop_, waits_};
    const bool over = call.reduction ? collectives_.Allreduce(call.reduction, made)
                                     : call.perform(collectives_, made);
    if (!over) return false;
  }
  if (call.complete) call.complete();
  return true;
}

bool OrderedGroup::ReduceInPlace(OrderedCall& call) {
  while (!Contribute(call)) {
    if (!places_.AwaitReaders(call.turn, stop_, waits_)) return false;
  }
  const auto is_there = [&] { return places_.AllHaveContributed(call.turn); };
  if (may_spin_ && !is_there() && spins_.Pays()) spins_.Note(!SpinUntil(is_there, kSpin));
  if (!places_.AwaitAll(call.turn, stop_, waits_)) return false;
  places_.Reduce(call.turn, *call.reduction, call.tag);
  return true;
}

void OrderedGroup::PerformFirst(std::unique_lock<std::mutex>& lock) {
  const OrderedCallPtr call = list_.front();
  list_.pop_front();
  current_ = call;
  std::exception_ptr error;
  if (!broken_.empty()) {
    error = std::make_exception_ptr(GroupBroken(broken_));
  } else {
    Write(*call);
    lock.unlock();
    try {
      if (!Perform(*call)) error = std::make_exception_ptr(GroupBroken(""));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
  }
  End(call, error, lock);
}

// With nothing performed and no lock held, `ended` may make calls and await them.
void OrderedGroup::End(const OrderedCallPtr& call, std::exception_ptr error,
                       std::unique_lock<std::mutex>& lock) {
  if (error != nullptr) {
    if (broken_.empty()) {
      // Tags that differ are told to all ranks; the board says what the calls are.
      std::string text = FindTrouble();
      if (text.empty()) text = TextOf(error, *call);
      Break(text);
    }
    error = std::make_exception_ptr(GroupBroken(broken_));
  }
  call->error = error;
  call->is_done = true;
  current_ = nullptr;
  ended_ = call->number;
  if (call->is_wanted) --wanted_;
  changed_.notify_all();
  lock.unlock();
  const auto ended = std::move(call->ended);
  if (ended) ended(error);
  lock.lock();
}

void OrderedGroup::Await(const OrderedCallPtr& call, std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (timeout.count() > 0 && !call->is_done) {
    const auto until =
        std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - call->since) + timeout;
    call->timeout = call->timeout.count() > 0 ? std::min(call->timeout, until) : until;
  }
  while (!call->is_done) {
    if (current_ == nullptr && !list_.empty()) {
      PerformFirst(lock);
    } else {
      changed_.wait(lock);
    }
  }
}

bool OrderedGroup::HasEnded(const OrderedCallPtr& call) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return call->is_done;
}

void OrderedGroup::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!has_left_ || !list_.empty()) {
    if (current_ == nullptr && !list_.empty() && (wanted_ > 0 || has_left_)) {
      PerformFirst(lock);
    } else {
      changed_.wait(lock);
    }
  }
  board_.Leave(ended_);
}

void OrderedGroup::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (has_left_) return;
  has_left_ = true;
  if (list_.empty() && current_ == nullptr) board_.Leave(ended_);
  changed_.notify_all();
}

void OrderedGroup::Abort(const std::string& text) {
  std::lock_guard<std::mutex> lock(mutex_);
  Break(text);
}

void OrderedGroup::Break(const std::string& text) {
  if (links_ != nullptr && board_.Breakage().empty()) {
    board_.Break(notes_->Settle(text));
  } else {
    board_.Break(text);
  }
  for (int looks = 0; looks < kLooks && broken_.empty(); ++looks) {
    broken_ = board_.Breakage();  // another rank's, perhaps, which it is writing
    if (broken_.empty()) std::this_thread::yield();
  }
  if (broken_.empty()) broken_ = text;
  stop_ = true;
  places_.Kick();
  node_.Kick();
  if (links_ != nullptr) links_->Close();
  changed_.notify_all();
}

void OrderedGroup::LookAfter() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!broken_.empty()) return;
  std::string trouble = board_.Breakage();
  if (trouble.empty()) trouble = FindTrouble();
  if (!trouble.empty()) Break(trouble);
}

}  // namespace horovod_opt
