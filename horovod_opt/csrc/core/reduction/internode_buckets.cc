#include "horovod_opt/csrc/core/reduction/internode_buckets.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "horovod_opt/csrc/core/base/rounding.h"
#include "horovod_opt/csrc/core/reduction/gpu_data_wait.h"

namespace horovod_opt {
namespace {

std::int64_t BytesOf(const CompleteBucket& bucket) {
  std::int64_t bytes = 0;
  for (int slot : bucket.slots) bytes += bucket.plan.slots[slot].bytes;
  return bytes;
}

std::vector<int> PlacesOf(const std::vector<int>& everybody) {
  std::vector<int> places(everybody.size());
  for (std::size_t place = 0; place < everybody.size(); ++place) {
    places[static_cast<std::size_t>(everybody[place])] = static_cast<int>(place);
  }
  return places;
}

}  // namespace

ExchangedBuckets::ExchangedBuckets(PlanTable& plans, ReadyQueue& queue, NodeCollectives& node,
                                   Exchanges& exchanges, std::vector<int> everybody, int rank,
                                   int group, int groups, Binding binding, Exchange::Sizes sizes)
    : plans_(plans),
      queue_(queue),
      node_(node),
      exchanges_(exchanges),
      everybody_(std::move(everybody)),
      places_(PlacesOf(everybody_)),
      rank_(rank),
      ranks_(static_cast<int>(everybody_.size()) / groups),
      group_(group),
      groups_(groups),
      binding_(std::move(binding)),
      sizes_(sizes) {}

void ExchangedBuckets::Announce(const CompleteBucket& bucket) {
  const auto is_ready = [](const ArrivalPtr& arrival) {
    return arrival == nullptr || arrival->DataReady();
  };
  if (ranks_ == 1) {
    try {
      if (std::all_of(bucket.arrivals.begin(), bucket.arrivals.end(), is_ready)) {
        return Send(bucket);
      }
    } catch (const std::exception&) {
      // Begin() tries again, and fails where errors are told to all ranks.
    }
  }
  queue_.Ready(bucket.turn.bucket_id, ranks_);
}

bool ExchangedBuckets::Begin(int bucket_id, const std::atomic<bool>& stop, WaitCounts& waits) {
  const CompleteBucket bucket = plans_.Look(bucket_id);
  if (!AwaitData(bucket.arrivals, stop)) return false;
  if (ranks_ == 1 || bucket.arrivals.empty()) {
    Send(bucket);
    return true;
  }
  if (IsCall(bucket)) return BeginCall(bucket, stop, waits);
  const auto journey = NewJourney(bucket);
  journey->part = TakeBuffer(OwnBytes(journey->ends));
  if (!node_.ReduceParts(*journey->reduction, journey->ends, journey->part.data.get(), journey->tag,
                         stop, waits)) {
    return false;
  }
  SendPart(bucket_id, journey);
  return true;
}

bool ExchangedBuckets::End(int entry, const std::atomic<bool>& stop, WaitCounts& waits) {
  const int bucket_id = BucketOf(entry);
  std::shared_ptr<Journey> journey;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    journey = journeys_.at(bucket_id);
  }
  if (journey->call) {
    if (!EndCall(*journey, stop, waits)) return false;
  } else if (!node_.GatherParts(*journey->reduction, journey->ends, journey->part.data.get(),
                                journey->tag, stop, waits)) {
    return false;
  }
  Finish(bucket_id);
  return true;
}

std::string ExchangedBuckets::Describe(int entry) const {
  const CompleteBucket bucket = plans_.Look(BucketOf(entry));
  return horovod_opt::Describe(bucket.plan, bucket.turn.bucket_id, bucket.iteration, bucket.slots);
}

Work ExchangedBuckets::Drop(int entry) { return plans_.Take(BucketOf(entry)); }

void ExchangedBuckets::Send(const CompleteBucket& bucket) {
  const int bucket_id = bucket.turn.bucket_id;
  if (bucket.arrivals.empty()) return TakeBack(bucket);
  if (IsCall(bucket)) return SendCall(bucket_id, NewCall(bucket));
  const auto journey = NewJourney(bucket);
  const BucketReduction& reduction = *journey->reduction;
  Start(bucket_id, journey->tag,
        {reduction.Bytes(), reduction.arithmetic(),
         [journey](std::int64_t begin, std::int64_t end, char* to) {
           journey->reduction->Contribute(begin, end, to);
         },
         [journey](std::int64_t begin, std::int64_t end, const char* sums) {
           journey->reduction->Write(begin, end, sums);
         },
         [journey](char* sums, std::int64_t bytes) { journey->reduction->ScaleSum(sums, bytes); },
         [journey](std::int64_t begin, std::int64_t end) -> ExchangedData::Place {
           const auto [in, out] = journey->reduction->Where(begin, end);
           return {in, out};
         }},
        [this, bucket_id] { ExchangeEnded(bucket_id); });
}

void ExchangedBuckets::SendPart(int bucket_id, const std::shared_ptr<Journey>& journey) {
  Start(bucket_id, journey->tag,
        {OwnBytes(journey->ends), journey->reduction->arithmetic(),
         [journey](std::int64_t begin, std::int64_t end, char* to) {
           std::memcpy(to, journey->part.data.get() + begin, static_cast<std::size_t>(end - begin));
         },
         [journey](std::int64_t begin, std::int64_t end, const char* sums) {
           std::memcpy(journey->part.data.get() + begin, sums,
                       static_cast<std::size_t>(end - begin));
         },
         [journey](char* sums, std::int64_t bytes) { journey->reduction->ScaleSum(sums, bytes); },
         [journey](std::int64_t begin, std::int64_t) -> ExchangedData::Place {
           char* const place = journey->part.data.get() + begin;
           return {place, place};
         }},
        [this, bucket_id] { ExchangeEnded(bucket_id); });
}

void ExchangedBuckets::Start(int bucket_id, std::uint64_t tag, ExchangedData data,
                             std::function<void()> done) {
  const auto ended = [this, bucket_id, done = std::move(done)](Exchange::Outcome outcome) {
    switch (outcome) {
      case Exchange::Outcome::kDone:
        return done();
      case Exchange::Outcome::kDiffers:
        EndJourney(bucket_id);
        return binding_.differs(plans_.Take(bucket_id));
      case Exchange::Outcome::kTakenBack:
        EndJourney(bucket_id);
        return binding_.given_back(plans_.GiveBack(bucket_id));
    }
  };
  exchanges_.Begin(std::make_unique<Exchange>(groups_, group_, bucket_id * Exchange::kWindow, tag,
                                              std::move(data), ended, sizes_));
}

void ExchangedBuckets::TakeBack(const CompleteBucket& bucket) {
  const int bucket_id = bucket.turn.bucket_id;
  const std::int64_t bytes = IsCall(bucket) ? everybody_.size() * sizeof(Words::value_type)
                                            : OwnBytes(Ends(BytesOf(bucket)));
  exchanges_.Begin(std::make_unique<Exchange>(
      groups_, group_, bucket_id * Exchange::kWindow, bytes,
      [this, bucket_id](Exchange::Outcome) { plans_.Take(bucket_id); }, sizes_));
}

void ExchangedBuckets::ExchangeEnded(int bucket_id) {
  if (ranks_ == 1) return Finish(bucket_id);
  queue_.Ready(ReadyQueue::kIds + bucket_id, ranks_);
}

void ExchangedBuckets::Finish(int bucket_id) {
  const Clock::time_point begun = EndJourney(bucket_id)->begun;
  binding_.reduced(plans_.Take(bucket_id), begun);
}

std::shared_ptr<ExchangedBuckets::Journey> ExchangedBuckets::NewJourney(
    const CompleteBucket& bucket) {
  Journey journey;
  journey.reduction.emplace(binding_.reduction(bucket));
  journey.ends = Ends(BytesOf(bucket));
  return Begun(bucket, std::move(journey));
}

std::shared_ptr<ExchangedBuckets::Journey> ExchangedBuckets::Begun(const CompleteBucket& bucket,
                                                                   Journey journey) {
  journey.tag = binding_.tag(bucket);
  journey.memory = binding_.memory(bucket);
  journey.begun = Clock::now();
  const auto begun = std::make_shared<Journey>(std::move(journey));
  binding_.begins(bucket);
  std::lock_guard<std::mutex> lock(mutex_);
  journeys_[bucket.turn.bucket_id] = begun;
  return begun;
}

std::shared_ptr<ExchangedBuckets::Journey> ExchangedBuckets::EndJourney(int bucket_id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = journeys_.find(bucket_id);
  std::shared_ptr<Journey> journey = std::move(found->second);
  journeys_.erase(found);
  buffers_.Return(std::move(journey->part));
  journey->memory.reset();
  journey->result.reset();
  return journey;
}

std::vector<std::int64_t> ExchangedBuckets::Ends(std::int64_t bytes) const {
  // Parts begin at a cache line, and so at an element.
  const std::int64_t part = CeilDiv(bytes, ranks_ * kCacheLine) * kCacheLine;
  std::vector<std::int64_t> ends;
  for (int rank = 1; rank <= ranks_; ++rank) ends.push_back(std::min(bytes, rank * part));
  return ends;
}

std::int64_t ExchangedBuckets::OwnBytes(const std::vector<std::int64_t>& ends) const {
  return ends[rank_] - (rank_ == 0 ? 0 : ends[rank_ - 1]);
}

BufferPool::Buffer ExchangedBuckets::TakeBuffer(std::int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  return buffers_.Take(bytes);
}

}  // namespace horovod_opt
