#include "horovod_opt/csrc/core/ordered_calls/ordered_group.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
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
// A rank that has just ended its last call may be gone before others have.
constexpr int kGoneLooks = 3;
constexpr int kLooks = 1000;  // for a text that takes no time to write
constexpr const char* kLoopback = "127.0.0.1";
constexpr std::chrono::seconds kPatience(60);  // with hosts that connect
// A call that takes longer is noted for other hosts.
constexpr std::chrono::milliseconds kSlow(300);
// So long hosts that differ wait for each other's notes.
constexpr std::chrono::milliseconds kNotes(1000), kNextNotes(10);

// What a rank tells other hosts of the call that it is at.
struct CallNote {
  std::uint64_t number, tag;
  CallFacts facts;
};

std::optional<CallNote> NoteIn(const std::string& text) {
  if (text.size() != sizeof(CallNote)) return std::nullopt;
  CallNote note;
  std::memcpy(&note, text.data(), sizeof(note));
  return note;
}

int Cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

std::string Seconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (time.count() % 1000 != 0) {
    const std::string rest = std::to_string(1000 + time.count() % 1000).substr(1);
    text += "." + rest.substr(0, rest.find_last_not_of('0') + 1);
  }
  return text + " s";
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
  std::shared_ptr<OrderedGroup> group(new OrderedGroup(std::move(segment->memory), meeting, name,
                                                       std::move(groups), std::move(transport),
                                                       site.notes));
  const bool enters =
      meeting.TakeStep([&] { watch::Do([&] { group->presence_.Enter(); }); }, error);
  if (!enters) return nullptr;
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

std::string OrderedGroup::TextOf(std::exception_ptr error, OrderedCall& call) {
  try {
    std::rethrow_exception(error);
  } catch (const HostsDiffer& problem) {
    const std::string text = HowHostsDiffer(call);
    return text.empty() ? Describe(call) + ": " + problem.what() : text;
  } catch (const PieceDiffers& problem) {
    return Describe(call) + ": " +
           PieceDiffers::Text(
               NamesOf({groups_.ranks[static_cast<std::size_t>(problem.from)]}), problem.given,
               NamesOf({groups_.ranks[static_cast<std::size_t>(problem.to)]}), problem.wanted) +
           "; remedy: splits that fit each other";
  } catch (const std::runtime_error& problem) {  // of a connection
    return Describe(call) + ": " + problem.what() + "; remedy: see its last lines";
  } catch (const std::exception& problem) {
    return Describe(call) + ": " + problem.what();
  }
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

std::string OrderedGroup::FindTrouble() {
  const OrderedCallPtr call = current_ != nullptr ? current_
                              : list_.empty()     ? nullptr
                                                  : list_.front();
  if (call == nullptr) return "";
  const std::string what = Describe(*call);
  if (call->is_written) {
    const int other = board_.Differing(call->number);
    if (other >= 0) {
      return Difference(*call, groups_.ranks[static_cast<std::size_t>(other)],
                        board_.FactsOf(other, call->number));
    }
  }
  const int gone = presence_.Missing();
  if (gone >= 0 && !board_.HasEnded(gone, call->number)) {
    gone_looks_ = gone == gone_ ? gone_looks_ + 1 : 1;
    gone_ = gone;
    if (gone_looks_ >= kGoneLooks) {
      const std::vector<int> ranks{groups_.ranks[static_cast<std::size_t>(gone)]};
      return what + ": " + NamesOf(ranks) + " is gone; remedy: see its last lines";
    }
  } else {
    gone_ = -1;
  }
  NoteIfSlow(*call);
  if (call->timeout.count() > 0 && Clock::now() - call->since > call->timeout) {
    const std::vector<int> missing = Missing(*call);
    return what + ": " +
           (missing.empty()
                ? "it was not ended"
                : NamesOf(missing) + (missing.size() == 1 ? " has" : " have") + " not come") +
           " within " + Seconds(call->timeout) + "; remedy: see what they do, or a longer timeout=";
  }
  return "";
}

// Others that time out see by it that this rank has come.
void OrderedGroup::NoteIfSlow(OrderedCall& call) {
  const bool has_come = call.is_written && !call.is_noted;
  if (links_ == nullptr || !has_come) return;
  const auto soon = call.timeout.count() > 0 ? std::min(kSlow, call.timeout / 2) : kSlow;
  if (Clock::now() - call.since > soon) Note(call);
}

void OrderedGroup::Note(OrderedCall& call) {
  call.is_noted = true;
  std::string note(sizeof(CallNote), '\0');
  const CallNote facts{call.number, call.tag, call.facts};
  std::memcpy(note.data(), &facts, sizeof(facts));
  notes_->Write(note);
}

std::vector<int> OrderedGroup::Missing(const OrderedCall& call) {
  std::vector<int> missing;
  for (int rank : board_.Missing(call.number)) {
    missing.push_back(groups_.ranks[static_cast<std::size_t>(rank)]);
  }
  if (links_ == nullptr) return missing;
  const std::vector<std::string> notes = notes_->Read();
  for (int rank = 0; rank < static_cast<int>(notes.size()); ++rank) {
    const auto& own = groups_.ranks;
    if (std::find(own.begin(), own.end(), rank) != own.end()) continue;
    const std::optional<CallNote> note = NoteIn(notes[static_cast<std::size_t>(rank)]);
    if (!note || note->number < call.number) missing.push_back(rank);
  }
  return missing;
}

// All hosts know that they do, and write what they have called.
std::string OrderedGroup::HowHostsDiffer(OrderedCall& call) {
  Note(call);
  for (const auto until = Clock::now() + kNotes; Clock::now() < until;) {
    const std::vector<std::string> notes = notes_->Read();
    for (int rank = 0; rank < static_cast<int>(notes.size()); ++rank) {
      const std::optional<CallNote> note = NoteIn(notes[static_cast<std::size_t>(rank)]);
      if (note && note->number == call.number && note->tag != call.tag) {
        return Difference(call, rank, note->facts);
      }
    }
    std::this_thread::sleep_for(kNextNotes);
  }
  return "";
}

std::string OrderedGroup::Describe(const OrderedCall& call) const {
  return std::string(call.facts.Name()) + " " + std::to_string(call.number) + " of group " + name_ +
         call.facts.Text();
}

std::string OrderedGroup::Difference(const OrderedCall& call, int other,
                                     const CallFacts& facts) const {
  const int own = groups_.ranks[static_cast<std::size_t>(rank_)];
  return Describe(call) + ": ranks differ: " + NamesOf({own}) + " has " + call.facts.Name() +
         call.facts.Text() + ", " + NamesOf({other}) + " has " + facts.Name() + facts.Text() +
         "; remedy: all ranks make the same calls in the same order, with the same sizes";
}

std::string OrderedGroup::NamesOf(const std::vector<int>& ranks) const {
  std::vector<int> names;
  for (int rank : ranks) names.push_back(names_[static_cast<std::size_t>(rank)]);
  std::sort(names.begin(), names.end());
  return Ranges("rank", names);
}

}  // namespace horovod_opt
