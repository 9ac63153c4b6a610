#include "horovod_opt/csrc/core/plan/bucket_filling.h"

#include <algorithm>
#include <stdexcept>

namespace horovod_opt {

void BucketFilling::Add(std::uint64_t from_iteration,
                        std::vector<std::shared_ptr<const PlannedBucket>> buckets) {
  Partition partition;
  partition.from_iteration = from_iteration;
  partition.where.resize(busy_.size());
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    const std::vector<int>& slots = buckets[index]->slots;
    for (std::size_t position = 0; position < slots.size(); ++position) {
      partition.where[slots[position]] = {static_cast<int>(index), static_cast<int>(position)};
    }
    places_[buckets[index]->id] = {partitions_.size(), index};
    partition.filling.emplace_back(std::move(buckets[index]));
  }
  partitions_.push_back(std::move(partition));
}

Buckets BucketFilling::buckets() const {
  Buckets buckets;
  for (const Bucket& bucket : partitions_.back().filling) buckets.push_back(bucket.slots());
  return buckets;
}

void BucketFilling::Restart() {
  for (Partition& partition : partitions_) partition.from_iteration = 0;
}

std::vector<int> BucketFilling::Free() {
  std::vector<int> bucket_ids;
  ForEach([&](const Bucket& bucket) { bucket_ids.push_back(bucket.id()); });
  partitions_.clear();
  places_.clear();
  return bucket_ids;
}

bool BucketFilling::AnyBusy() const {
  return std::find(busy_.begin(), busy_.end(), true) != busy_.end();
}

bool BucketFilling::AnyIncomplete() const {
  bool any = false;
  ForEach([&](const Bucket& bucket) { any = any || (!bucket.Empty() && bucket.missing > 0); });
  return any;
}

int BucketFilling::Put(int slot, std::uint64_t iteration, ArrivalPtr arrival,
                       Clock::time_point now) {
  busy_[slot] = true;
  Partition& partition = PartitionOf(iteration);
  const auto [index, position] = partition.where[slot];
  Bucket& bucket = partition.filling[index];
  Work& work = bucket.work;
  if (bucket.Empty()) {
    work.iteration = iteration;
    work.arrivals.resize(bucket.filled.size());
    bucket.first_arrival = now;
  }
  if (arrival != nullptr) arrival->since = now;
  work.arrivals[position] = std::move(arrival);
  bucket.filled[position] = true;
  if (--bucket.missing > 0) return kNoBucket;
  work.reduction = work.bucket->ReductionOf(work.arrivals);
  work.last_arrival = now;
  work.turn.count = static_cast<std::uint32_t>(++bucket.completions);
  ++times_last_[slot];
  ++outstanding_;
  return bucket.id();
}

Work& BucketFilling::CompleteBucket(int bucket_id) {
  Bucket* const bucket = Find(bucket_id);
  if (bucket == nullptr) throw std::logic_error("a complete bucket of no plan");
  return bucket->work;
}

Work BucketFilling::Take(int bucket_id) {
  Bucket* const bucket = Find(bucket_id);
  if (bucket == nullptr) throw std::logic_error("the ready queue has a bucket of no plan");
  if (bucket->taken_back) {
    bucket->taken_back = false;
    --outstanding_;
    Work nothing;
    nothing.bucket = bucket->work.bucket;
    return nothing;
  }
  if (bucket->missing != 0) throw std::logic_error("the ready queue has an incomplete bucket");
  Work work = std::move(bucket->work);
  bucket->work = Work();
  bucket->work.bucket = work.bucket;
  Empty(*bucket);
  return work;
}

bool BucketFilling::MarkReduced(int bucket_id) {
  --outstanding_;
  const auto place = places_.find(bucket_id);
  if (place == places_.end()) return false;  // all ranks have joined meanwhile
  Partition& partition = partitions_[place->second.partition];
  return ++partition.done % partition.filling.size() == 0;
}

std::vector<std::uint64_t> BucketFilling::Completions() const {
  std::vector<std::uint64_t> completions;
  ForEach([&](const Bucket& bucket) { completions.push_back(bucket.completions); });
  return completions;
}

std::vector<int> BucketFilling::Untaken(const std::vector<std::uint64_t>& completions) const {
  std::vector<int> bucket_ids;
  std::size_t number = 0;
  ForEach([&](const Bucket& bucket) {
    const bool is_same = number < completions.size() && bucket.completions == completions[number];
    if (is_same && bucket.missing == 0) bucket_ids.push_back(bucket.id());
    ++number;
  });
  return bucket_ids;
}

bool BucketFilling::Holds(int bucket_id) const {
  const Bucket* const bucket = Find(bucket_id);
  return bucket != nullptr && !bucket->Empty();
}

bool BucketFilling::IsComplete(int bucket_id, std::uint64_t count) const {
  const Bucket* const bucket = Find(bucket_id);
  return bucket != nullptr && bucket->missing == 0 && bucket->completions == count;
}

bool BucketFilling::IsUnderWay() const {
  bool under_way = outstanding_ > 0;
  ForEach([&](const Bucket& bucket) {
    under_way = under_way || !bucket.Empty() || bucket.debt > bucket.completions;
  });
  return under_way;
}

BucketFilling::Withdrawal BucketFilling::TakeBack(const std::vector<std::uint64_t>& everywhere,
                                                  const std::vector<std::uint64_t>& anywhere,
                                                  const std::vector<std::uint64_t>& in_group) {
  Withdrawal withdrawal;
  std::size_t number = 0;
  for (Partition& partition : partitions_) {
    for (Bucket& bucket : partition.filling) {
      const std::uint64_t least = everywhere.at(number);
      const std::uint64_t most = anywhere.at(number);
      // Of what is complete in the group the allreduce with the others has begun, or will; but
      // Horovod's own operations, as on GPUs, begin when it is complete everywhere.
      const bool ends_in_group = !bucket.work.bucket->first().reduction.OnGpu() &&
                                 in_group.at(number) == most && bucket.completions == most;
      ++number;
      const bool stays = bucket.missing == 0 && (bucket.completions == least || ends_in_group);
      if (!stays) {
        MoveArrivals(bucket, withdrawal.arrivals);
        bucket.taken_back = bucket.completions > least;
      } else if (bucket.completions != least) {
        for (int slot : bucket.slots()) may_come_back_[slot] = true;
      }
      if (bucket.completions == most) continue;
      bucket.debt = most;
      withdrawal.debts.push_back(bucket.id());
    }
  }
  return withdrawal;
}

bool BucketFilling::Owe(int bucket_id) {
  Bucket& bucket = *Find(bucket_id);
  if (!bucket.Empty()) return false;
  bucket.completions = bucket.debt;
  bucket.work.turn.count = static_cast<std::uint32_t>(bucket.debt);
  bucket.taken_back = true;
  ++outstanding_;
  return true;
}

std::vector<ArrivalPtr> BucketFilling::GiveBack(int bucket_id) {
  std::vector<ArrivalPtr> arrivals;
  for (ArrivalPtr& arrival : Find(bucket_id)->work.arrivals) {
    if (arrival != nullptr) arrivals.push_back(std::move(arrival));
  }
  return arrivals;
}

void BucketFilling::HandedBack(int bucket_id) {
  Empty(*Find(bucket_id));
  --outstanding_;
}

std::vector<ArrivalPtr> BucketFilling::Close() {
  std::vector<ArrivalPtr> arrivals;
  for (Partition& partition : partitions_) {
    for (Bucket& bucket : partition.filling) MoveArrivals(bucket, arrivals);
  }
  return arrivals;
}

std::vector<BucketFilling::LateBucket> BucketFilling::LateBuckets(Clock::time_point since) const {
  std::vector<LateBucket> late;
  ForEach([&](const Bucket& bucket) {
    if (bucket.Empty() || bucket.first_arrival > since) return;
    LateBucket late_bucket{bucket.work.iteration, {}, {}, bucket.work.last_arrival};
    for (std::size_t position = 0; position < bucket.filled.size(); ++position) {
      (bucket.filled[position] ? late_bucket.here : late_bucket.missing)
          .push_back(bucket.slots()[position]);
    }
    late.push_back(std::move(late_bucket));
  });
  return late;
}

std::vector<BucketFilling::SlotArrival> BucketFilling::AllArrivals() const {
  std::vector<SlotArrival> arrivals;
  ForEach([&](const Bucket& bucket) {
    for (std::size_t position = 0; position < bucket.work.arrivals.size(); ++position) {
      const ArrivalPtr& arrival = bucket.work.arrivals[position];
      if (arrival != nullptr) arrivals.push_back({bucket.slots()[position], *arrival});
    }
  });
  return arrivals;
}

std::vector<BucketFilling::BucketState> BucketFilling::BucketStates() const {
  std::vector<BucketState> states;
  ForEach([&](const Bucket& bucket) {
    const bool owed = bucket.debt > bucket.completions;
    if (bucket.Empty() && !bucket.taken_back && !owed) return;
    BucketState state{bucket.id(),
                      bucket.work.iteration,
                      {},
                      {},
                      bucket.first_arrival,
                      bucket.work.last_arrival,
                      bucket.taken_back,
                      owed};
    for (std::size_t position = 0; position < bucket.filled.size(); ++position) {
      (bucket.filled[position] ? state.here : state.missing).push_back(bucket.slots()[position]);
    }
    states.push_back(std::move(state));
  });
  return states;
}

std::vector<int> BucketFilling::SlotsOf(int bucket_id) const {
  const Bucket* const bucket = Find(bucket_id);
  return bucket == nullptr ? std::vector<int>() : bucket->slots();
}

BucketFilling::Partition& BucketFilling::PartitionOf(std::uint64_t iteration) {
  auto partition = partitions_.rbegin();
  while (partition->from_iteration > iteration) ++partition;
  return *partition;
}

BucketFilling::Bucket* BucketFilling::Find(int bucket_id) {
  const auto place = places_.find(bucket_id);
  if (place == places_.end()) return nullptr;
  return &partitions_[place->second.partition].filling[place->second.bucket];
}

void BucketFilling::Empty(Bucket& bucket) {
  for (std::size_t position = 0; position < bucket.filled.size(); ++position) {
    if (!bucket.filled[position]) continue;
    busy_[bucket.slots()[position]] = may_come_back_[bucket.slots()[position]] = false;
  }
  bucket.work.arrivals.clear();
  bucket.work.reduction = nullptr;
  bucket.filled.assign(bucket.filled.size(), false);
  bucket.missing = static_cast<int>(bucket.filled.size());
}

void BucketFilling::MoveArrivals(Bucket& bucket, std::vector<ArrivalPtr>& to) {
  for (ArrivalPtr& arrival : bucket.work.arrivals) {
    if (arrival != nullptr) to.push_back(std::move(arrival));
  }
  Empty(bucket);
}

template <class Do>
void BucketFilling::ForEach(const Do& act) const {
  for (const Partition& partition : partitions_) {
    for (const Bucket& bucket : partition.filling) act(bucket);
  }
}

}  // namespace horovod_opt
