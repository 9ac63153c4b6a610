// Allgathers, reducescatters and broadcasts among several groups: a call is a bucket of one tensor.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "horovod_opt/csrc/core/plan/exchanged_buckets.h"
#include "horovod_opt/csrc/core/shm/elementwise.h"

namespace horovod_opt {
namespace {

constexpr std::int64_t kWord = sizeof(Words::value_type);
static_assert(BlockRing::kWindow <= Exchange::kWindow, "a ring has the channels of an exchange");

template <class Rows>
bool AnyoneJoined(Rows begin, Rows end) {
  return std::find(begin, end, Words::value_type{0}) != end;
}

}  // namespace

bool ExchangedBuckets::IsCall(const CompleteBucket& bucket) {
  return bucket.plan.slots[bucket.slots[0]].collective != Collective::kAllreduce;
}

std::shared_ptr<ExchangedBuckets::Journey> ExchangedBuckets::NewCall(const CompleteBucket& bucket) {
  Journey journey;
  journey.call = binding_.call(bucket);
  journey.rows = std::make_shared<Words>(everybody_.size());
  const ExchangedCall& call = *journey.call;
  if (!call.joined) {
    (*journey.rows)[Place(group_, rank_)] = static_cast<Words::value_type>(call.rows) + 1;
  }
  if (call.collective == Collective::kReducescatter && !call.joined) {
    // The rows that go to ranks of one number are one part.
    const int size = static_cast<int>(everybody_.size());
    std::vector<std::int64_t> begins{0};
    for (int rank = 0; rank < size; ++rank) {
      begins.push_back(begins.back() + RowsOf(call.rows, rank, size) * call.row_bytes);
    }
    std::vector<Segment> segments;
    std::int64_t bytes = 0;
    for (int number = 0; number < ranks_; ++number) {
      for (int group = 0; group < groups_; ++group) {
        const int to = RankAt(group, number);
        segments.push_back({call.data + begins[to], nullptr, begins[to + 1] - begins[to]});
        bytes += segments.back().bytes;
      }
      journey.ends.push_back(bytes);
    }
    journey.reduction.emplace(std::move(segments), call.arithmetic, call.prescale, call.postscale);
  }
  return Begun(bucket, std::move(journey));
}

bool ExchangedBuckets::BeginCall(const CompleteBucket& bucket, const std::atomic<bool>& stop,
                                 WaitCounts& waits) {
  const auto journey = NewCall(bucket);
  Words& rows = *journey->rows;
  std::uint64_t* const of_group = &rows[Place(group_, 0)];
  const std::uint64_t own = of_group[rank_];
  const auto output = [&](const std::vector<std::int64_t>&) { return of_group; };
  if (node_.Allgather(&own, 1, kWord, output, journey->tag, stop, waits) !=
      NodeCollectives::Outcome::kDone) {
    return false;
  }
  if (journey->reduction && !AnyoneJoined(of_group, of_group + ranks_)) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      journey->part = buffers_.Take(OwnBytes(journey->ends));
    }
    if (!node_.ReduceParts(*journey->reduction, journey->ends, journey->part.data.get(),
                           journey->tag, stop, waits)) {
      return false;
    }
  }
  SendCall(bucket.turn.bucket_id, journey);
  return true;
}

void ExchangedBuckets::SendCall(int bucket_id, const std::shared_ptr<Journey>& journey) {
  Start(bucket_id, journey->tag,
        ExchangedWords(journey->rows, &elementwise::Reduce<std::uint64_t, elementwise::Sum>),
        [this, bucket_id, journey] { GoRound(bucket_id, journey); });
}

void ExchangedBuckets::GoRound(int bucket_id, const std::shared_ptr<Journey>& journey) {
  if (AnyoneJoined(journey->rows->begin(), journey->rows->end())) {
    EndJourney(bucket_id);
    return binding_.incomplete(plans_.Take(bucket_id), journey->begun);
  }
  switch (journey->call->collective) {
    case Collective::kAllgather:
      return Gather(bucket_id, journey);
    case Collective::kReducescatter:
      return ScatterSums(bucket_id, journey);
    case Collective::kBroadcast:
      return Broadcast(bucket_id, journey);
    case Collective::kAllreduce:
      throw std::logic_error("not a call");
  }
}

void ExchangedBuckets::BeginRing(BlockRing::Kind kind, int bucket_id, char* memory,
                                 const std::vector<BlockRing::Block>& blocks,
                                 const Arithmetic& arithmetic, std::function<void()> ended) {
  exchanges_.Begin(std::make_unique<BlockRing>(kind, groups_, group_, bucket_id * Exchange::kWindow,
                                               memory, blocks, arithmetic, std::move(ended),
                                               sizes_.chunk));
}

void ExchangedBuckets::Gather(int bucket_id, const std::shared_ptr<Journey>& journey) {
  const ExchangedCall& call = *journey->call;
  std::vector<std::int64_t>& begins = journey->begins;
  begins.assign(everybody_.size() + 1, 0);
  for (std::size_t place = 0; place < everybody_.size(); ++place) {
    const auto rows = static_cast<std::int64_t>((*journey->rows)[place]) - 1;
    begins[everybody_[place] + 1] = rows * call.row_bytes;
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  // One after the other, or where they are in the result.
  std::vector<BlockRing::Block> blocks;
  std::int64_t bytes = 0;
  char* const result = ranks_ == 1 ? call.output(AllRows(*journey)) : nullptr;
  for (int group = 0; group < groups_; ++group) {
    const int rank = RankAt(group, rank_);
    const std::int64_t of_rank = begins[rank + 1] - begins[rank];
    blocks.push_back({result == nullptr ? bytes : begins[rank], of_rank});
    bytes += of_rank;
  }
  char* memory = result;
  if (memory == nullptr) {  // the others get the blocks nevertheless
    std::lock_guard<std::mutex> lock(mutex_);
    journey->part = buffers_.Take(bytes);
    memory = journey->part.data.get();
  }
  const BlockRing::Block& own = blocks[group_];
  std::copy_n(call.data, own.bytes, memory + own.begin);
  BeginRing(BlockRing::Kind::kAllgather, bucket_id, memory, blocks, call.arithmetic,
            [this, bucket_id, journey] { ExchangeEnded(bucket_id); });
}

void ExchangedBuckets::ScatterSums(int bucket_id, const std::shared_ptr<Journey>& journey) {
  const BucketReduction& reduction = *journey->reduction;
  if (ranks_ == 1) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      journey->part = buffers_.Take(reduction.Bytes());
    }
    reduction.Contribute(0, reduction.Bytes(), journey->part.data.get());
  }
  const ExchangedCall& call = *journey->call;
  const int size = static_cast<int>(everybody_.size());
  std::vector<BlockRing::Block> blocks;
  std::int64_t bytes = 0;
  for (int group = 0; group < groups_; ++group) {
    const int to = RankAt(group, rank_);
    blocks.push_back({bytes, RowsOf(call.rows, to, size) * call.row_bytes});
    bytes += blocks.back().bytes;
  }
  const auto ended = [this, bucket_id, journey, own = blocks[group_]] {
    char* const sums = journey->part.data.get() + own.begin;
    journey->reduction->ScaleSum(sums, own.bytes);
    const ExchangedCall& ended_call = *journey->call;
    const std::int64_t rows = ended_call.row_bytes == 0 ? 0 : own.bytes / ended_call.row_bytes;
    if (char* const to = ended_call.output(rows)) std::copy_n(sums, own.bytes, to);
    Finish(bucket_id);
  };
  BeginRing(BlockRing::Kind::kReduceScatter, bucket_id, journey->part.data.get(), blocks,
            call.arithmetic, ended);
}

// The ranks with the root's number pass it on; then each has it for its group.
void ExchangedBuckets::Broadcast(int bucket_id, const std::shared_ptr<Journey>& journey) {
  const ExchangedCall& call = *journey->call;
  const int root = PlaceOf(call.root);
  if (root % ranks_ != rank_) return ExchangeEnded(bucket_id);
  std::vector<BlockRing::Block> blocks(static_cast<std::size_t>(groups_));
  blocks[root / ranks_].bytes = call.row_bytes;
  BeginRing(BlockRing::Kind::kAllgather, bucket_id, BroadcastMemory(call), blocks, call.arithmetic,
            [this, bucket_id, journey] { ExchangeEnded(bucket_id); });
}

bool ExchangedBuckets::EndCall(Journey& journey, const std::atomic<bool>& stop, WaitCounts& waits) {
  const ExchangedCall& call = *journey.call;
  if (call.collective == Collective::kAllgather) return EndGather(journey, stop, waits);
  return node_.Broadcast(BroadcastMemory(call), call.row_bytes, PlaceOf(call.root) % ranks_,
                         journey.tag, stop, waits) == NodeCollectives::Outcome::kDone;
}

bool ExchangedBuckets::EndGather(Journey& journey, const std::atomic<bool>& stop,
                                 WaitCounts& waits) {
  const std::vector<std::int64_t>& begins = journey.begins;
  const auto bytes_of = [&](int rank) { return begins[rank + 1] - begins[rank]; };
  std::int64_t own = 0;
  for (int group = 0; group < groups_; ++group) own += bytes_of(RankAt(group, rank_));
  BufferPool::Buffer gathered;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    gathered = buffers_.Take(begins.back());
  }
  const auto output = [&](const std::vector<std::int64_t>&) { return gathered.data.get(); };
  const auto outcome =
      node_.Allgather(journey.part.data.get(), own, 1, output, journey.tag, stop, waits);
  if (outcome != NodeCollectives::Outcome::kDone) return false;
  if (char* const to = journey.call->output(AllRows(journey))) {
    const char* from = gathered.data.get();
    for (int number = 0; number < ranks_; ++number) {
      for (int group = 0; group < groups_; ++group) {
        const int rank = RankAt(group, number);
        std::copy_n(from, bytes_of(rank), to + begins[rank]);
        from += bytes_of(rank);
      }
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  buffers_.Return(std::move(gathered));
  return true;
}

int ExchangedBuckets::PlaceOf(int rank) const {
  const auto found = std::find(everybody_.begin(), everybody_.end(), rank);
  return static_cast<int>(found - everybody_.begin());
}

// Read on the root, written elsewhere.
char* ExchangedBuckets::BroadcastMemory(const ExchangedCall& call) const {
  const bool gives = PlaceOf(call.root) == Place(group_, rank_);
  return gives ? const_cast<char*>(call.data) : call.output(1);
}

std::int64_t ExchangedBuckets::AllRows(const Journey& journey) {
  const std::uint64_t counted = std::accumulate(journey.rows->begin(), journey.rows->end(),
                                                Words::value_type{0});
  return static_cast<std::int64_t>(counted - journey.rows->size());
}

}  // namespace horovod_opt
