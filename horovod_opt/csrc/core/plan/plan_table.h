// Table of the plans of one process, its planned path, and which slot of which plan an arriving
// tensor fills.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/base/rank_texts.h"
#include "horovod_opt/csrc/core/counters/path_counters.h"
#include "horovod_opt/csrc/core/plan/plan_run.h"
#include "horovod_opt/csrc/core/reduction/small_bucket_path.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_ids.h"

namespace horovod_opt {

// Threads: Arrive(), LeaveOut() and StepOver() from any framework thread; Add(), Remove() and
// Reject() from any Python thread, Reject() also from the background thread; VoteRow(), Apply() and
// Restart() from the background thread; Take() and MarkReduced() from the planned path's thread;
// reports from any.
class PlanTable {
 public:
  using Clock = std::chrono::steady_clock;

  // `capacity`: how many buckets all active plans together may have, ReadyQueue::kBuckets at most,
  // or std::invalid_argument; if one more needs some, those that have not been used for the longest
  // time rest. `ready` is told of each bucket that is
  // complete, by the thread that completed it and under locks; not after Finish() has returned, if
  // no vote follows. `meet` is called when there is something to vote on: by any thread, under
  // locks.
  PlanTable(int capacity, std::function<void(const Work& work)> ready, std::function<void()> meet);
  // How many ranks reduce the tensors. Before the first plan.
  void SetRanks(int ranks) { ranks_ = ranks; }
  // The ranks that this one shares memory with, if they reduce buckets in it before other groups
  // have them. Before the first vote; without it, as if there were no others.
  void SetGroup(const std::vector<int>& ranks) { group_ = {ranks.begin(), ranks.end()}; }
  // Instead of `ready`, for buckets that have a place in `memory` bytes. Before the first plan
  // becomes active; not used any more after Finish().
  void UseSmallBucketPath(SmallBucketPath& small_buckets, std::int64_t memory);

  // --- plans ---
  // A plan whose hash is known only adds its keys. A key that belongs to another plan ends both
  // plans: one cannot know from which of the two graphs a tensor comes.
  void Add(Plan plan);
  // The graph with these keys is gone; once no rank has one of this plan, the plan is forgotten.
  // The keys go only when many other graphs are gone as well: if it runs once more, as it may on
  // some ranks, its tensors are still known.
  void Remove(const Plan& plan);
  // A call has recurred: on every rank at the same place among the responses and votes, so that
  // the same of its calls is the first that counts for all. It is planned if the ranks find, in the
  // next vote, that it is the same call on all; else it is forgotten. False: it has a plan already.
  bool Learn(const Plan& call);
  void Reject(const std::string& hash, const std::string& reason);
  // Nothing more comes of this step on this rank, or hardly anything: the tensors that have arrived
  // of a plan wait for no other. `keys`: of those.
  void StepOver(const std::vector<std::int64_t>& keys, std::int64_t step);
  // The tensor with this key does not come on this rank: as long as the plan is not active, it goes
  // on without it, on every rank. May be said in every step.
  void LeaveOut(std::int64_t key, const std::string& reason);
  // Why nothing can be planned in this job, on every rank at the same place among the responses and
  // votes, and before any plan is active. Plans added from now on fail; one that the ranks have just
  // voted for ends.
  void Disable(const std::string& reason);

  // --- arrivals ---
  // Some plan has this key.
  bool Knows(std::int64_t key) const;
  // May perform the tensor's bucket, and then has called back for it when it returns.
  Route Arrive(std::int64_t key, ArrivalPtr& arrival);
  // After Route::kNegotiated, where the negotiated path has not taken the tensor.
  void Refuse(std::int64_t key);
  // A bucket that is announced and not taken, of which the caller has been told: the same until
  // it takes it or gives it back.
  const Work& Look(int bucket_id) const;
  Work Take(int bucket_id);
  // Instead of Take(), where another group has taken the bucket back: its plan has ended. Nothing
  // else of these tensors is let through until HandedBack().
  std::vector<ArrivalPtr> GiveBack(int bucket_id);
  void HandedBack(int bucket_id);
  bool MarkReduced(const Work& work);  // true if its iteration is over
  // The same, and counts it; `start`: of the reduction.
  void MarkReduced(const Work& work, Clock::time_point start, PathCounters& counters);

  // --- votes ---
  // There is something to decide. Cleared by VoteRow().
  bool WantsVote() const { return wants_vote_.load(std::memory_order_acquire); }
  void Join();  // this rank has joined: asks for a vote
  bool HasJoined() const;
  void Restart();  // all ranks have joined
  // `first`: of the ranks that vote; it alone says how long plans have not been used, so that the
  // others' rows are mostly the same. `times`: it also says when tensors arrive, for a rebuild.
  // `stall`: of a stall check.
  struct Stall {
    Clock::duration patience;  // see PlanRun; zero: there is no check
    bool waits_elsewhere;      // for so long, for what is not planned
  };
  std::string VoteRow(bool first, bool times, Clock::time_point now = Clock::now(),
                      Stall stall = {});
  struct Outcome {
    std::vector<ArrivalPtr> to_negotiate;  // take the negotiated path, or fail (Arrival)
    std::vector<ArrivalPtr> to_refuse;     // were deferred, and are refused
    std::vector<std::string> rejections;   // lines for the user, of plans that are negotiated
    std::vector<std::string> failures;     // of steps that fail on some rank
    std::set<std::string> come_from;       // plans of `to_negotiate`, by hash
  };
  using HandBack = std::function<void(ArrivalPtr)>;
  // What the ranks have decided, who say `rows`. Takes no lock, so that arrivals wait for none.
  std::vector<Decision> DecideBy(const TextByRank& rows) const { return Decide(rows, group_); }
  // Whether Apply() may make a plan active that is not: the same on every rank.
  static bool AnyBecomesActive(const std::vector<Decision>& decisions);
  // `hand_back` takes what is negotiated, with no lock held, before anything of these plans that
  // arrives meanwhile takes that path: a tensor that a script sends again, as it has left a step,
  // does not overtake its last one. Without it they are in the outcome.
  Outcome Apply(std::vector<Decision> decisions, const HandBack& hand_back = {});
  Outcome Apply(const TextByRank& rows) { return Apply(DecideBy(rows)); }
  // Whether a plan is or has been active, one with tensors on GPUs or, if `anywhere`, any. The same
  // on every rank between two votes.
  bool AnyCommitted(bool anywhere) const;

  // --- the end ---
  // From now on every arrival is negotiated, and no bucket becomes complete any more; those that
  // are complete can still be taken.
  void Finish();
  // What the others have to know of this rank after Finish(), and then, by rank, what they say: IDs
  // of buckets that are complete on every rank, and not taken here.
  std::string CompletionRow() const;
  std::vector<int> UntakenBuckets(const TextByRank& rows) const;
  // Of these buckets some are not taken.
  bool AnyUntaken(const std::vector<int>& bucket_ids) const;
  // As Finish(), and returns what is left.
  std::vector<ArrivalPtr> Close();

  // --- reports ---
  struct Report {
    std::string hash, name, state, reason;
    std::uint64_t iterations = 0;
    Buckets buckets;
    std::vector<std::string> slots;
    std::vector<std::uint64_t> times_last;
  };
  std::vector<Report> Reports() const;
  // Buckets that have waited since before `since`.
  struct LateBucket {
    std::string plan;
    std::uint64_t iteration = 0;
    std::vector<std::string> here, missing;
    Clock::time_point last_arrival;
  };
  std::vector<LateBucket> LateBuckets(Clock::time_point since) const;
  // The tensors that are in a bucket.
  struct PendingTensor {
    std::string plan;  // its hash
    std::string name;  // of the arrival
    Collective collective = Collective::kAllreduce;
    Reduction reduction;
    std::vector<std::int64_t> shape;  // as in Arrival
    Clock::time_point since;
  };
  std::vector<PendingTensor> PendingTensors() const;
  // Which plans have something under way, and what. `more`: what else is known of a bucket that is
  // complete. Waits for no lock longer than the page does.
  using BucketNote = std::function<std::string(int bucket_id)>;
  void DumpState(StatePage& page, int process_set, const BucketNote& more = {}) const;
  // Of a bucket that is taken: "bucket 3 (plan p: 'a', 'b')".
  std::string DumpBucket(StatePage& page, int bucket_id) const;

 private:
  struct Entry {
    Entry(Plan plan, int ranks) : run(std::move(plan), ranks) {}
    mutable std::mutex mutex;
    PlanRun run;     // under the mutex, except for what never changes of run.plan()
    int graphs = 0;  // that have its keys; under the table's mutex
  };
  struct Binding {
    Entry* entry = nullptr;
    int slot = 0;
  };

  void Bind(Entry& entry, const Plan& plan);
  void End(Entry& entry, const std::string& reason);
  void Unbind(const Entry* entry, const std::vector<std::int64_t>& keys);
  Entry* Find(const std::string& hash) const;
  Binding Find(std::int64_t key) const;  // no entry: none has this key
  Entry& EntryOf(int bucket_id) const;
  // IDs for these buckets, the same ones on every rank; none if fewer are free.
  std::vector<int> Allocate(const Plan& plan, const Buckets& buckets);
  // `own_work`: gets the bucket if it is to be performed here, which is possible if it is not
  // nullptr. Returns the turn for which the caller spins then.
  std::optional<Turn> Announce(Entry& entry, int bucket_id, Work* own_work = nullptr);
  // The bucket, for a framework's thread to perform; nothing if another thread has taken it.
  Work TakeIfUntaken(const Turn& turn);
  void SpinFor(const Turn& turn);
  void PayDebts();
  Work TakeFrom(Entry& entry, int bucket_id, std::vector<int>& completed);  // under its mutex
  // Of one that another thread may be about to take; `guard`: of the entry's mutex.
  Work TakeFrom(Entry& entry, int bucket_id, std::unique_lock<std::mutex> guard);
  void Rest(std::vector<Decision>& decisions, std::size_t buckets, Outcome& outcome);
  void Forget(const Decision& decision, Outcome& outcome);
  void ForgetCall(Entry& entry, Decision& decision, Outcome& outcome);
  Outcome CarryOut(std::vector<Decision> decisions);
  void CarryOut(Entry* entry, const Decision& decision, Outcome& outcome,
                const std::vector<int>& bucket_ids = {}, Buckets buckets = {});
  void Collect(Entry& entry, PlanRun::Effects effects, Outcome& outcome);
  void ForEach(const std::set<std::string>& hashes, const std::function<void(Entry&)>& act);
  void AddRejection(const Entry* entry, const Decision& decision, bool once, Outcome& outcome);
  void WantVote() {
    wants_vote_.store(true, std::memory_order_release);
    meet_();
  }

  const std::function<void(const Work&)> ready_;
  const std::function<void()> meet_;
  int ranks_ = 1;
  std::set<int> group_;
  mutable std::shared_mutex mutex_;  // protects what follows; before any Entry's mutex
  std::map<std::string, std::unique_ptr<Entry>> plans_;  // by hash: the order of decisions
  std::unordered_map<std::int64_t, Binding> bindings_;   // by key
  std::vector<Entry*> owners_;                           // by bucket ID
  std::set<std::string> reported_plans_;                 // hashes of waiting plans, reported
  std::set<std::string> unlike_calls_;                   // hashes of calls that ranks do not share
  BucketIds ids_;
  SmallBucketPath* small_buckets_ = nullptr;
  // By bucket ID: how often Arrive() has taken the bucket, and Take() has not come across it since.
  std::vector<std::atomic<int>> performed_;
  std::vector<int> debts_;  // to be announced in the next vote
  std::deque<std::pair<Entry*, std::vector<std::int64_t>>> old_graphs_;  // graphs, by their keys
  std::string disabled_;
  bool finishing_ = false;
  bool joined_ = false;
  std::atomic<bool> wants_vote_{false};
};

}  // namespace horovod_opt
