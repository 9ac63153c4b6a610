// Allgathers, reducescatters and broadcasts among several groups: a call is a bucket of one tensor.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "horovod_opt/csrc/core/reduction/internode_buckets.h"
#include "horovod_opt/csrc/core/reduction/elementwise.h"

namespace horovod_opt {
namespace {

constexpr std::int64_t kWord = sizeof(Words::value_type);
static_assert(BlockRing::kWindow <= Exchange::kWindow, "a ring has the channels of an exchange");

// Where each begins, and the end.
template <class Bytes>
std::vector<std::int64_t> BeginsOf(int ranks, const Bytes& bytes) {
  std::vector<std::int64_t> begins{0};
  for (int rank = 0; rank < ranks; ++rank) begins.push_back(begins.back() + bytes(rank));
  return begins;
}

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
    (*journey.rows)[PlaceAt(group_, rank_)] = static_cast<Words::value_type>(call.rows) + 1;
  }
  if (call.collective == Collective::kReducescatter && !call.joined) {
    const int size = static_cast<int>(everybody_.size());
    journey.begins = BeginsOf(size, [&](int rank) {
      return RowsOf(call.rows, rank, size) * call.row_bytes;
    });
    if (ranks_ > 1) PrepareReduction(journey);
  }
  return Begun(bucket, std::move(journey));
}

// In the group's memory: the rows that go to ranks of one number are one part.
void ExchangedBuckets::PrepareReduction(Journey& journey) const {
  const ExchangedCall& call = *journey.call;
  std::vector<Segment> segments;
  std::int64_t bytes = 0;
  for (int number = 0; number < ranks_; ++number) {
    for (int group = 0; group < groups_; ++group) {
      const int to = RankAt(group, number);
      segments.push_back({call.data + journey.begins[to], nullptr, BytesOfRank(journey, to)});
      bytes += segments.back().bytes;
    }
    journey.ends.push_back(bytes);
  }
  journey.reduction.emplace(std::move(segments), call.arithmetic, call.prescale, call.postscale);
}

bool ExchangedBuckets::BeginCall(const CompleteBucket& bucket, const std::atomic<bool>& stop,
                                 WaitCounts& waits) {
  const auto journey = NewCall(bucket);
  Words& rows = *journey->rows;
  std::uint64_t* const of_group = &rows[PlaceAt(group_, 0)];
  const std::uint64_t own = of_group[rank_];
  const auto output = [&](const std::vector<std::int64_t>&) { return of_group; };
  if (node_.Allgather(&own, 1, kWord, output, journey->tag, stop, waits) !=
      NodeCollectives::Outcome::kDone) {
    return false;
  }
  if (journey->reduction && !AnyoneJoined(of_group, of_group + ranks_)) {
    journey->part = TakeBuffer(OwnBytes(journey->ends));
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

void ExchangedBuckets::BeginRing(BlockRing::Kind kind, int bucket_id, BlockRing::Memory memory,
                                 const std::vector<BlockRing::Block>& blocks,
                                 const Arithmetic& arithmetic, std::function<void()> ended) {
  exchanges_.Begin(std::make_unique<BlockRing>(kind, groups_, group_, bucket_id * Exchange::kWindow,
                                               memory, blocks, arithmetic, std::move(ended),
                                               sizes_.chunk));
}

// Those of the ranks with this number; where they are in all, or one after the other.
std::vector<BlockRing::Block> ExchangedBuckets::BlocksOf(const Journey& journey,
                                                         bool in_all) const {
  std::vector<BlockRing::Block> blocks;
  std::int64_t bytes = 0;
  for (int group = 0; group < groups_; ++group) {
    const int rank = RankAt(group, rank_);
    blocks.push_back({in_all ? journey.begins[rank] : bytes, BytesOfRank(journey, rank)});
    bytes += blocks.back().bytes;
  }
  return blocks;
}

void ExchangedBuckets::Gather(int bucket_id, const std::shared_ptr<Journey>& journey) {
  const ExchangedCall& call = *journey->call;
  journey->begins = BeginsOf(static_cast<int>(everybody_.size()), [&](int rank) {
    return (static_cast<std::int64_t>((*journey->rows)[places_[rank]]) - 1) * call.row_bytes;
  });
  if (ranks_ == 1) journey->result = call.output(AllRows(*journey));
  char* memory = journey->result.get();
  const std::vector<BlockRing::Block> blocks = BlocksOf(*journey, memory != nullptr);
  if (memory == nullptr) {  // the others get the blocks nevertheless
    journey->part = TakeBuffer(blocks.back().begin + blocks.back().bytes);
    memory = journey->part.data.get();
  }
  const BlockRing::Block& own = blocks[group_];
  std::copy_n(call.data, own.bytes, memory + own.begin);
  BeginRing(BlockRing::Kind::kAllgather, bucket_id, {nullptr, memory}, blocks, call.arithmetic,
            [this, bucket_id, journey] { ExchangeEnded(bucket_id); });
}

void ExchangedBuckets::ScatterSums(int bucket_id, const std::shared_ptr<Journey>& journey) {
  const ExchangedCall& call = *journey->call;
  const std::vector<BlockRing::Block> blocks = BlocksOf(*journey, ranks_ == 1);
  const char* contributed = ranks_ == 1 ? call.data : journey->part.data.get();
  if (ranks_ == 1 && call.prescale != 1) {
    const std::int64_t bytes = journey->begins.back();
    journey->part = TakeBuffer(bytes);
    char* const scaled = journey->part.data.get();
    std::copy_n(call.data, bytes, scaled);
    Scale(call.arithmetic, scaled, bytes, call.prescale);
    contributed = scaled;
  }
  journey->result = call.output(RowsOf(call.rows, RankAt(group_, rank_),
                                       static_cast<int>(everybody_.size())));
  const auto ended = [this, bucket_id, journey, bytes = blocks[group_].bytes] {
    const ExchangedCall& ended_call = *journey->call;
    Scale(ended_call.arithmetic, journey->result.get(), bytes, ended_call.postscale);
    Finish(bucket_id);
  };
  BeginRing(BlockRing::Kind::kReduceScatter, bucket_id, {contributed, journey->result.get()},
            blocks, call.arithmetic, ended);
}

// The ranks with the root's number pass it on; then each has it for its group.
void ExchangedBuckets::Broadcast(int bucket_id, const std::shared_ptr<Journey>& journey) {
  const ExchangedCall& call = *journey->call;
  const int root = places_[call.root];
  if (root % ranks_ != rank_) return ExchangeEnded(bucket_id);
  std::vector<BlockRing::Block> blocks(static_cast<std::size_t>(groups_));
  blocks[root / ranks_].bytes = call.row_bytes;
  BeginRing(BlockRing::Kind::kAllgather, bucket_id, {nullptr, BroadcastMemory(call)}, blocks,
            call.arithmetic, [this, bucket_id, journey] { ExchangeEnded(bucket_id); });
}

bool ExchangedBuckets::EndCall(Journey& journey, const std::atomic<bool>& stop, WaitCounts& waits) {
  const ExchangedCall& call = *journey.call;
  if (call.collective == Collective::kAllgather) return EndGather(journey, stop, waits);
  return node_.Broadcast(BroadcastMemory(call), call.row_bytes, places_[call.root] % ranks_,
                         journey.tag, stop, waits) == NodeCollectives::Outcome::kDone;
}

bool ExchangedBuckets::EndGather(Journey& journey, const std::atomic<bool>& stop,
                                 WaitCounts& waits) {
  std::int64_t own = 0;
  for (int group = 0; group < groups_; ++group) own += BytesOfRank(journey, RankAt(group, rank_));
  BufferPool::Buffer gathered = TakeBuffer(journey.begins.back());
  const auto output = [&](const std::vector<std::int64_t>&) { return gathered.data.get(); };
  const auto outcome =
      node_.Allgather(journey.part.data.get(), own, 1, output, journey.tag, stop, waits);
  if (outcome != NodeCollectives::Outcome::kDone) return false;
  if (const auto to = journey.call->output(AllRows(journey))) {
    const char* from = gathered.data.get();
    for (int number = 0; number < ranks_; ++number) {
      for (int group = 0; group < groups_; ++group) {
        const int rank = RankAt(group, number);
        std::copy_n(from, BytesOfRank(journey, rank), to.get() + journey.begins[rank]);
        from += BytesOfRank(journey, rank);
      }
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  buffers_.Return(std::move(gathered));
  return true;
}

// Read on the root, written elsewhere.
char* ExchangedBuckets::BroadcastMemory(const ExchangedCall& call) const {
  const bool gives = call.root == RankAt(group_, rank_);
  return gives ? const_cast<char*>(call.data) : call.output(1).get();
}

std::int64_t ExchangedBuckets::AllRows(const Journey& journey) {
  const std::uint64_t counted = std::accumulate(journey.rows->begin(), journey.rows->end(),
                                                Words::value_type{0});
  return static_cast<std::int64_t>(counted - journey.rows->size());
}

}  // namespace horovod_opt
