// Gradient bucketing: the buckets of one plan on one rank, as the tensors of an iteration fill
// them.
//
// Several partitions into buckets may be in use at a time: a newer one applies from its first
// iteration on, while buckets of an older one still complete. A slot is in at most one bucket at a
// time (invariant 4 of plan_run.h), so one place a slot is enough.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/plan/arrival.h"
#include "horovod_opt/csrc/core/plan/plan.h"
#include "horovod_opt/csrc/core/plan/planned_bucket.h"

namespace horovod_opt {

class BucketFilling {
 public:
  using Clock = std::chrono::steady_clock;

  explicit BucketFilling(std::size_t slots)
      : busy_(slots, false), may_come_back_(slots, false), times_last_(slots, 0) {}

  // --- partitions ---
  void Add(std::uint64_t from_iteration, std::vector<std::shared_ptr<const PlannedBucket>> buckets);
  // The newest; empty() if there is none.
  Buckets buckets() const;
  bool empty() const { return partitions_.empty(); }
  // Iterations are counted anew; for buckets that are all empty.
  void Restart();
  // Gives up all buckets. Returns their IDs.
  std::vector<int> Free();

  // --- one iteration ---
  // A tensor of this slot is in a bucket.
  bool IsBusy(int slot) const { return busy_[slot]; }
  bool AnyBusy() const;
  // It is in a bucket that stays after TakeBack(), and that another group may take back yet.
  bool MayComeBack(int slot) const { return may_come_back_[slot]; }
  bool AnyIncomplete() const;  // buckets that are begun
  // Returns the ID of the bucket that is complete now, or kNoBucket.
  int Put(int slot, std::uint64_t iteration, ArrivalPtr arrival, Clock::time_point now);
  // A complete bucket before it is taken, or one that was taken back, which is empty. Stays where it
  // is until then.
  Work& CompleteBucket(int bucket_id);
  // The same, of which nothing is left here. Throws std::logic_error if there is no such bucket or
  // it is not complete.
  Work Take(int bucket_id);
  // The bucket is reduced. True if all of its iteration are.
  bool MarkReduced(int bucket_id);
  // The arrivals of a complete bucket that is not reduced: another group has taken it back. Its
  // slots are busy until HandedBack().
  std::vector<ArrivalPtr> GiveBack(int bucket_id);
  void HandedBack(int bucket_id);

  // --- for all ranks to compare ---
  // By bucket, those of older partitions first: how often it was complete.
  std::vector<std::uint64_t> Completions() const;
  // Complete buckets that are not taken, of which `completions` is what Completed() says: their
  // IDs.
  std::vector<int> Untaken(const std::vector<std::uint64_t>& completions) const;
  bool Holds(int bucket_id) const;  // it is not empty
  // It can be taken, and is complete for the `count`-th time.
  bool IsComplete(int bucket_id, std::uint64_t count) const;
  // Something is in a bucket, or complete and not reduced.
  bool IsUnderWay() const;
  // Takes back the arrivals of each bucket that is complete neither on every rank nor on all of the
  // group. `everywhere`, `anywhere`: the least and the greatest of all ranks' Completed();
  // `in_group`: the least of the group.
  struct Withdrawal {
    std::vector<ArrivalPtr> arrivals;
    std::vector<int> debts;  // buckets that other ranks have announced, and this one has to as well
  };
  Withdrawal TakeBack(const std::vector<std::uint64_t>& everywhere,
                      const std::vector<std::uint64_t>& anywhere,
                      const std::vector<std::uint64_t>& in_group);
  // The bucket is to be announced now, without arrivals. False: it is not yet taken from before.
  bool Owe(int bucket_id);
  // All arrivals, at the end.
  std::vector<ArrivalPtr> Close();

  // By slot: how often its tensor was the one that completed its bucket.
  const std::vector<std::uint64_t>& times_last() const { return times_last_; }

  // --- lateness ---
  // A bucket that is begun, and since before `since`: which of its slots are here.
  struct LateBucket {
    std::uint64_t iteration;
    std::vector<int> here, missing;
    Clock::time_point last_arrival;
  };
  std::vector<LateBucket> LateBuckets(Clock::time_point since) const;
  // What is in a bucket, complete or not, on its way to the sum.
  struct SlotArrival {
    int slot;
    const Arrival& arrival;
  };
  std::vector<SlotArrival> AllArrivals() const;

  // --- for a state dump ---
  struct BucketState {
    int id;
    std::uint64_t iteration;
    std::vector<int> here, missing;  // slots
    Clock::time_point first_arrival, last_arrival;
    bool taken_back, owed;  // see Bucket; to be announced without arrivals
  };
  std::vector<BucketState> BucketStates() const;  // those in which something is, or has to be
  std::vector<int> SlotsOf(int bucket_id) const;
  int outstanding() const { return outstanding_; }

 private:
  struct Bucket {
    explicit Bucket(std::shared_ptr<const PlannedBucket> bucket)
        : filled(bucket->slots.size(), false), missing(static_cast<int>(bucket->slots.size())) {
      work.bucket = std::move(bucket);
    }
    int id() const { return work.bucket->id; }
    const std::vector<int>& slots() const { return work.bucket->slots; }
    bool Empty() const { return missing == static_cast<int>(filled.size()); }

    Work work;  // arrivals: none if it is empty
    std::vector<bool> filled;
    int missing;
    Clock::time_point first_arrival;
    std::uint64_t completions = 0;  // times that it was announced
    std::uint64_t debt = 0;         // has to be announced as often
    bool taken_back = false;        // its arrivals, since it was announced
  };
  struct Partition {
    std::uint64_t from_iteration = 0;
    std::vector<std::pair<int, int>> where;  // slot -> bucket, position
    std::vector<Bucket> filling;
    std::uint64_t done = 0;  // buckets
  };

  Partition& PartitionOf(std::uint64_t iteration);
  struct Place {
    std::size_t partition, bucket;
  };
  // nullptr: none
  Bucket* Find(int bucket_id);
  const Bucket* Find(int bucket_id) const {
    return const_cast<BucketFilling*>(this)->Find(bucket_id);
  }
  void Empty(Bucket& bucket);
  void MoveArrivals(Bucket& bucket, std::vector<ArrivalPtr>& to);  // it is empty then
  template <class Do>
  void ForEach(const Do& act) const;

  std::vector<Partition> partitions_;      // the last one is the newest
  std::unordered_map<int, Place> places_;  // by bucket ID
  std::vector<bool> busy_, may_come_back_;
  std::vector<std::uint64_t> times_last_;
  int outstanding_ = 0;  // buckets that are announced and not reduced
};

}  // namespace horovod_opt
