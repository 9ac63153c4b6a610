#include "horovod_opt/csrc/core/plan/bucket_filling.h"

#include <algorithm>
#include <stdexcept>

namespace horovod_opt {

void BucketFilling::Add(std::uint64_t from_iteration, const std::vector<int>& bucket_ids,
                        Buckets buckets) {
  Partition partition;
  partition.from_iteration = from_iteration;
  partition.where.resize(busy_.size());
  for (std::size_t index = 0; index < buckets.size(); ++index) {
    const std::size_t size = buckets[index].size();
    for (std::size_t position = 0; position < size; ++position) {
      partition.where[buckets[index][position]] = {static_cast<int>(index),
                                                   static_cast<int>(position)};
    }
    Bucket bucket;
    bucket.id = bucket_ids.at(index);
    bucket.slots = buckets[index];
    bucket.arrivals.resize(size);
    bucket.filled.assign(size, false);
    bucket.missing = static_cast<int>(size);
    partition.filling.push_back(std::move(bucket));
  }
  partition.buckets = std::move(buckets);
  partitions_.push_back(std::move(partition));
}

void BucketFilling::Restart() {
  for (Partition& partition : partitions_) partition.from_iteration = 0;
}

std::vector<int> BucketFilling::Free() {
  std::vector<int> bucket_ids;
  ForEach([&](const Bucket& bucket) { bucket_ids.push_back(bucket.id); });
  partitions_.clear();
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
  if (bucket.Empty()) {
    bucket.iteration = iteration;
    bucket.first_arrival = now;
  }
  if (arrival != nullptr) arrival->since = now;
  bucket.arrivals[position] = std::move(arrival);
  bucket.filled[position] = true;
  if (--bucket.missing > 0) return kNoBucket;
  bucket.last_arrival = now;
  ++times_last_[slot];
  ++bucket.completions;
  ++outstanding_;
  return bucket.id;
}

BucketFilling::Complete BucketFilling::CompleteBucket(int bucket_id) {
  const Bucket* const bucket = Find(bucket_id).second;
  if (bucket == nullptr) throw std::logic_error("a complete bucket of no plan");
  return {bucket->iteration, bucket->completions, bucket->slots, bucket->arrivals,
          bucket->taken_back};
}

Work BucketFilling::Take(int bucket_id) {
  Bucket* const bucket = Find(bucket_id).second;
  if (bucket == nullptr) throw std::logic_error("the ready queue has a bucket of no plan");
  Work work;
  work.bucket_id = bucket_id;
  work.iteration = bucket->iteration;
  if (bucket->taken_back) {
    bucket->taken_back = false;
    --outstanding_;
    return work;
  }
  if (bucket->missing != 0) throw std::logic_error("the ready queue has an incomplete bucket");
  work.turn.count = static_cast<std::uint32_t>(bucket->completions);
  work.slots = bucket->slots;
  work.arrivals = std::move(bucket->arrivals);
  work.last_arrival = bucket->last_arrival;
  Empty(*bucket);
  return work;
}

bool BucketFilling::MarkReduced(int bucket_id) {
  --outstanding_;
  Partition* const partition = Find(bucket_id).first;  // none if all ranks have joined meanwhile
  return partition != nullptr && ++partition->done % partition->buckets.size() == 0;
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
    if (is_same && bucket.missing == 0) bucket_ids.push_back(bucket.id);
    ++number;
  });
  return bucket_ids;
}

bool BucketFilling::Holds(int bucket_id) const {
  bool holds = false;
  ForEach(
      [&](const Bucket& bucket) { holds = holds || (bucket.id == bucket_id && !bucket.Empty()); });
  return holds;
}

bool BucketFilling::IsComplete(int bucket_id, std::uint64_t count) const {
  bool is_complete = false;
  ForEach([&](const Bucket& bucket) {
    if (bucket.id == bucket_id) is_complete = bucket.missing == 0 && bucket.completions == count;
  });
  return is_complete;
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
      const bool ends_in_group = in_group.at(number++) == most && bucket.completions == most;
      // Of what is complete in the group the allreduce with the others has begun, or will.
      const bool stays = bucket.missing == 0 && (bucket.completions == least || ends_in_group);
      if (!stays) {
        MoveArrivals(bucket, withdrawal.arrivals);
        bucket.taken_back = bucket.completions > least;
      }
      if (bucket.completions == most) continue;
      bucket.debt = most;
      withdrawal.debts.push_back(bucket.id);
    }
  }
  return withdrawal;
}

bool BucketFilling::Owe(int bucket_id) {
  Bucket& bucket = *Find(bucket_id).second;
  if (!bucket.Empty()) return false;
  bucket.completions = bucket.debt;
  bucket.taken_back = true;
  ++outstanding_;
  return true;
}

std::vector<ArrivalPtr> BucketFilling::GiveBack(int bucket_id) {
  std::vector<ArrivalPtr> arrivals;
  MoveArrivals(*Find(bucket_id).second, arrivals);
  --outstanding_;
  return arrivals;
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
    LateBucket late_bucket{bucket.iteration, {}, {}, bucket.last_arrival};
    for (std::size_t position = 0; position < bucket.filled.size(); ++position) {
      (bucket.filled[position] ? late_bucket.here : late_bucket.missing)
          .push_back(bucket.slots[position]);
    }
    late.push_back(std::move(late_bucket));
  });
  return late;
}

std::vector<BucketFilling::SlotArrival> BucketFilling::AllArrivals() const {
  std::vector<SlotArrival> arrivals;
  ForEach([&](const Bucket& bucket) {
    for (std::size_t position = 0; position < bucket.slots.size(); ++position) {
      const ArrivalPtr& arrival = bucket.arrivals[position];
      if (arrival != nullptr) arrivals.push_back({bucket.slots[position], *arrival});
    }
  });
  return arrivals;
}

std::vector<BucketFilling::BucketState> BucketFilling::BucketStates() const {
  std::vector<BucketState> states;
  ForEach([&](const Bucket& bucket) {
    const bool owed = bucket.debt > bucket.completions;
    if (bucket.Empty() && !bucket.taken_back && !owed) return;
    BucketState state{bucket.id,           bucket.iteration,  {},  {}, bucket.first_arrival,
                      bucket.last_arrival, bucket.taken_back, owed};
    for (std::size_t position = 0; position < bucket.filled.size(); ++position) {
      (bucket.filled[position] ? state.here : state.missing).push_back(bucket.slots[position]);
    }
    states.push_back(std::move(state));
  });
  return states;
}

std::vector<int> BucketFilling::SlotsOf(int bucket_id) const {
  std::vector<int> slots;
  ForEach([&](const Bucket& bucket) {
    if (bucket.id == bucket_id) slots = bucket.slots;
  });
  return slots;
}

BucketFilling::Partition& BucketFilling::PartitionOf(std::uint64_t iteration) {
  auto partition = partitions_.rbegin();
  while (partition->from_iteration > iteration) ++partition;
  return *partition;
}

std::pair<BucketFilling::Partition*, BucketFilling::Bucket*> BucketFilling::Find(int bucket_id) {
  for (Partition& partition : partitions_) {
    for (Bucket& bucket : partition.filling) {
      if (bucket.id == bucket_id) return {&partition, &bucket};
    }
  }
  return {nullptr, nullptr};
}

void BucketFilling::Empty(Bucket& bucket) {
  for (std::size_t position = 0; position < bucket.slots.size(); ++position) {
    if (bucket.filled[position]) busy_[bucket.slots[position]] = false;
  }
  const std::size_t size = bucket.slots.size();
  bucket.arrivals.clear();
  bucket.arrivals.resize(size);
  bucket.filled.assign(size, false);
  bucket.missing = static_cast<int>(size);
}

void BucketFilling::MoveArrivals(Bucket& bucket, std::vector<ArrivalPtr>& to) {
  for (ArrivalPtr& arrival : bucket.arrivals) {
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
