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
  ++bucket.completed;
  ++outstanding_;
  return bucket.id;
}

BucketFilling::Complete BucketFilling::CompleteBucket(int bucket_id) {
  const Bucket* const bucket = Find(bucket_id).second;
  if (bucket == nullptr) throw std::logic_error("a complete bucket of no plan");
  return {bucket->iteration, bucket->completed, bucket->slots, bucket->arrivals,
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
  work.turn.count = static_cast<std::uint32_t>(bucket->completed);
  work.slots = bucket->slots;
  work.arrivals = std::move(bucket->arrivals);
  work.last_arrival = bucket->last_arrival;
  Empty(*bucket);
  return work;
}

bool BucketFilling::Finished(int bucket_id) {
  --outstanding_;
  Partition* const partition = Find(bucket_id).first;  // none if all ranks have joined meanwhile
  return partition != nullptr && ++partition->done % partition->buckets.size() == 0;
}

std::vector<std::uint64_t> BucketFilling::Completed() const {
  std::vector<std::uint64_t> completed;
  ForEach([&](const Bucket& bucket) { completed.push_back(bucket.completed); });
  return completed;
}

std::vector<int> BucketFilling::NotTaken(const std::vector<std::uint64_t>& completed) const {
  std::vector<int> bucket_ids;
  std::size_t number = 0;
  ForEach([&](const Bucket& bucket) {
    const bool is_same = number < completed.size() && bucket.completed == completed[number];
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
    if (bucket.id == bucket_id) is_complete = bucket.missing == 0 && bucket.completed == count;
  });
  return is_complete;
}

bool BucketFilling::UnderWay() const {
  bool begun = outstanding_ > 0;
  ForEach([&](const Bucket& bucket) {
    begun = begun || !bucket.Empty() || bucket.owed > bucket.completed;
  });
  return begun;
}

BucketFilling::TakenBack BucketFilling::TakeBack(const std::vector<std::uint64_t>& everywhere,
                                                 const std::vector<std::uint64_t>& anywhere,
                                                 const std::vector<std::uint64_t>& in_group) {
  TakenBack taken;
  std::size_t number = 0;
  for (Partition& partition : partitions_) {
    for (Bucket& bucket : partition.filling) {
      const std::uint64_t least = everywhere.at(number);
      const std::uint64_t most = anywhere.at(number);
      const bool ends_in_group = in_group.at(number++) == most && bucket.completed == most;
      // Of what is complete in the group the exchange with the others has begun, or will.
      const bool stays = bucket.missing == 0 && (bucket.completed == least || ends_in_group);
      if (!stays) {
        MoveArrivals(bucket, taken.arrivals);
        bucket.taken_back = bucket.completed > least;
      }
      if (bucket.completed == most) continue;
      bucket.owed = most;
      taken.owed.push_back(bucket.id);
    }
  }
  return taken;
}

bool BucketFilling::Owe(int bucket_id) {
  Bucket& bucket = *Find(bucket_id).second;
  if (!bucket.Empty()) return false;
  bucket.completed = bucket.owed;
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
  std::vector<ArrivalPtr> all;
  for (Partition& partition : partitions_) {
    for (Bucket& bucket : partition.filling) MoveArrivals(bucket, all);
  }
  return all;
}

std::vector<BucketFilling::Waiting> BucketFilling::WaitingSince(Clock::time_point since) const {
  std::vector<Waiting> waiting;
  ForEach([&](const Bucket& bucket) {
    if (bucket.Empty() || bucket.first_arrival > since) return;
    Waiting one{bucket.iteration, {}, {}};
    for (std::size_t position = 0; position < bucket.filled.size(); ++position) {
      (bucket.filled[position] ? one.here : one.missing).push_back(bucket.slots[position]);
    }
    waiting.push_back(std::move(one));
  });
  return waiting;
}

std::vector<BucketFilling::Held> BucketFilling::AllHeld() const {
  std::vector<Held> held;
  ForEach([&](const Bucket& bucket) {
    for (std::size_t position = 0; position < bucket.slots.size(); ++position) {
      const ArrivalPtr& arrival = bucket.arrivals[position];
      if (arrival != nullptr) held.push_back({bucket.slots[position], *arrival});
    }
  });
  return held;
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
