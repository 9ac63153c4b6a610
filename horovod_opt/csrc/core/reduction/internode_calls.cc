// Allgathers, reducescatters and broadcasts among several groups: a call is a bucket of one tensor.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/reduction/internode_buckets.h"

namespace horovod_opt {
namespace {

constexpr std::int64_t kWord = sizeof(Words::value_type);
static_assert(BlockRing::kChannels <= NonblockingAllreduce::kChannels,
              "a ring has the channels of an allreduce");

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

std::shared_ptr<InternodeBuckets::Request> InternodeBuckets::NewCall(const Work& work) {
  const auto request = std::make_shared<Request>(work);
  request->rows = std::make_shared<Words>(everybody_.size());
  const Slot& slot = request->slot();
  if (request->tensor != nullptr) {
    const std::int64_t rows = RowsGiven(slot, *request->tensor);
    (*request->rows)[PlaceAt(group_, rank_)] = static_cast<Words::value_type>(rows) + 1;
  }
  if (slot.collective == Collective::kReducescatter && request->tensor != nullptr) {
    const int size = static_cast<int>(everybody_.size());
    request->begins = BeginsOf(
        size, [&](int rank) { return RowsOf(slot.rows, rank, size) * request->row_bytes(); });
    if (ranks_ > 1) PrepareReduction(*request);
  }
  Register(work, request);
  return request;
}

// In the group's memory: the rows that go to ranks of one number are one part.
void InternodeBuckets::PrepareReduction(Request& request) const {
  std::vector<Segment> segments;
  std::int64_t bytes = 0;
  for (int number = 0; number < ranks_; ++number) {
    for (int group = 0; group < groups_; ++group) {
      const int to = RankAt(group, number);
      segments.push_back({request.data() + request.begins[to], nullptr, BytesOfRank(request, to)});
      bytes += segments.back().bytes;
    }
    request.ends.push_back(bytes);
  }
  const Reduction& reduction = request.slot().reduction;
  request.reduction = std::make_shared<const BucketReduction>(
      std::move(segments), SumsOf(request.slot()), reduction.prescale, reduction.postscale);
}

bool InternodeBuckets::BeginCall(const Work& work, const std::atomic<bool>& stop,
                                 WaitCounts& waits) {
  const auto request = NewCall(work);
  Words& rows = *request->rows;
  std::uint64_t* const of_group = &rows[PlaceAt(group_, 0)];
  const std::uint64_t own = of_group[rank_];
  const auto output = [&](const std::vector<std::int64_t>&) { return of_group; };
  if (node_.Allgather(&own, 1, kWord, output, request->tag, stop, waits) !=
      NodeCollectives::Outcome::kDone) {
    return false;
  }
  if (request->reduction != nullptr && !AnyoneJoined(of_group, of_group + ranks_)) {
    request->part = TakeBuffer(BytesOfPart(request->ends, rank_));
    if (!node_.ReduceParts(*request->reduction, request->ends, request->part.data.get(),
                           request->tag, stop, waits)) {
      return false;
    }
  }
  SendCall(work.bucket->id, request);
  return true;
}

void InternodeBuckets::SendCall(int bucket_id, const std::shared_ptr<Request>& request) {
  Start(bucket_id, request->tag,
        AllreduceDataOf(request->rows, &elementwise::Reduce<std::uint64_t, elementwise::Sum>),
        [this, bucket_id, request] { GoRound(bucket_id, request); });
}

void InternodeBuckets::GoRound(int bucket_id, const std::shared_ptr<Request>& request) {
  if (AnyoneJoined(request->rows->begin(), request->rows->end()))
    return Finish(bucket_id, Outcome::kIncomplete);
  switch (request->slot().collective) {
    case Collective::kAllgather:
      return Gather(bucket_id, request);
    case Collective::kReducescatter:
      return ScatterSums(bucket_id, request);
    case Collective::kBroadcast:
      return Broadcast(bucket_id, request);
    case Collective::kAllreduce:
      throw std::logic_error("not a call");
  }
}

void InternodeBuckets::BeginRing(BlockRing::Kind kind, int bucket_id, BlockRing::Memory memory,
                                 const std::vector<BlockRing::Block>& blocks,
                                 const Arithmetic& arithmetic, std::function<void()> on_end) {
  engine_.Begin(std::make_unique<BlockRing>(kind, groups_, group_,
                                            bucket_id * NonblockingAllreduce::kChannels, memory,
                                            blocks, arithmetic, std::move(on_end), sizes_.chunk));
}

// Those of the ranks with this number; where they are in all, or one after the other.
std::vector<BlockRing::Block> InternodeBuckets::BlocksOf(const Request& request,
                                                         bool in_all) const {
  std::vector<BlockRing::Block> blocks;
  std::int64_t bytes = 0;
  for (int group = 0; group < groups_; ++group) {
    const int rank = RankAt(group, rank_);
    blocks.push_back({in_all ? request.begins[rank] : bytes, BytesOfRank(request, rank)});
    bytes += blocks.back().bytes;
  }
  return blocks;
}

void InternodeBuckets::Gather(int bucket_id, const std::shared_ptr<Request>& request) {
  request->begins = BeginsOf(static_cast<int>(everybody_.size()), [&](int rank) {
    return (static_cast<std::int64_t>((*request->rows)[places_[rank]]) - 1) * request->row_bytes();
  });
  if (ranks_ == 1) request->result = request->tensor->AllocateResult(AllRows(*request));
  char* memory = request->result.get();
  const std::vector<BlockRing::Block> blocks = BlocksOf(*request, memory != nullptr);
  if (memory == nullptr) {  // the others get the blocks nevertheless
    request->part = TakeBuffer(blocks.back().begin + blocks.back().bytes);
    memory = request->part.data.get();
  }
  const BlockRing::Block& own = blocks[group_];
  std::copy_n(request->data(), own.bytes, memory + own.begin);
  BeginRing(BlockRing::Kind::kAllgather, bucket_id, {nullptr, memory}, blocks,
            BlockRing::kNoArithmetic, [this, bucket_id, request] { AnnounceEnd(bucket_id); });
}

void InternodeBuckets::ScatterSums(int bucket_id, const std::shared_ptr<Request>& request) {
  const Reduction& reduction = request->slot().reduction;
  const Arithmetic arithmetic = SumsOf(request->slot());
  const std::vector<BlockRing::Block> blocks = BlocksOf(*request, ranks_ == 1);
  const char* contributed = ranks_ == 1 ? request->data() : request->part.data.get();
  if (ranks_ == 1 && reduction.prescale != 1) {
    const std::int64_t bytes = request->begins.back();
    request->part = TakeBuffer(bytes);
    char* const scaled = request->part.data.get();
    std::copy_n(request->data(), bytes, scaled);
    Scale(arithmetic, scaled, bytes, reduction.prescale);
    contributed = scaled;
  }
  char* const result = static_cast<char*>(request->tensor->segment.out);
  const auto on_end = [this, bucket_id, request, arithmetic, result, bytes = blocks[group_].bytes] {
    Scale(arithmetic, result, bytes, request->slot().reduction.postscale);
    Finish(bucket_id);
  };
  BeginRing(BlockRing::Kind::kReduceScatter, bucket_id, {contributed, result}, blocks, arithmetic,
            on_end);
}

// The ranks with the root's number pass it on; then each has it for its group.
void InternodeBuckets::Broadcast(int bucket_id, const std::shared_ptr<Request>& request) {
  const int root = places_[request->slot().root];
  if (root % ranks_ != rank_) return AnnounceEnd(bucket_id);
  std::vector<BlockRing::Block> blocks(static_cast<std::size_t>(groups_));
  blocks[root / ranks_].bytes = request->row_bytes();
  BeginRing(BlockRing::Kind::kAllgather, bucket_id, {nullptr, BroadcastMemory(*request)}, blocks,
            BlockRing::kNoArithmetic, [this, bucket_id, request] { AnnounceEnd(bucket_id); });
}

bool InternodeBuckets::EndCall(Request& request, const std::atomic<bool>& stop, WaitCounts& waits) {
  const Slot& slot = request.slot();
  if (slot.collective == Collective::kAllgather) return EndGather(request, stop, waits);
  return node_.Broadcast(BroadcastMemory(request), request.row_bytes(), places_[slot.root] % ranks_,
                         request.tag, stop, waits) == NodeCollectives::Outcome::kDone;
}

bool InternodeBuckets::EndGather(Request& request, const std::atomic<bool>& stop,
                                 WaitCounts& waits) {
  std::int64_t own = 0;
  for (int group = 0; group < groups_; ++group) own += BytesOfRank(request, RankAt(group, rank_));
  BufferPool::Buffer gathered = TakeBuffer(request.begins.back());
  const auto output = [&](const std::vector<std::int64_t>&) { return gathered.data.get(); };
  const auto outcome =
      node_.Allgather(request.part.data.get(), own, 1, output, request.tag, stop, waits);
  if (outcome != NodeCollectives::Outcome::kDone) return false;
  if (const auto to = request.tensor->AllocateResult(AllRows(request))) {
    const char* from = gathered.data.get();
    for (int number = 0; number < ranks_; ++number) {
      for (int group = 0; group < groups_; ++group) {
        const int rank = RankAt(group, number);
        std::copy_n(from, BytesOfRank(request, rank), to.get() + request.begins[rank]);
        from += BytesOfRank(request, rank);
      }
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  buffers_.Return(std::move(gathered));
  return true;
}

// Read on the root, written elsewhere.
char* InternodeBuckets::BroadcastMemory(const Request& request) const {
  return static_cast<char*>(
      SourceOf(request.slot(), request.tensor->segment, RankAt(group_, rank_)));
}

std::int64_t InternodeBuckets::AllRows(const Request& request) {
  const std::uint64_t counted =
      std::accumulate(request.rows->begin(), request.rows->end(), Words::value_type{0});
  return static_cast<std::int64_t>(counted - request.rows->size());
}

}  // namespace horovod_opt
