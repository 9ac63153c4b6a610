#include "horovod_opt/csrc/core/ordered_calls/hierarchical_collectives.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "horovod_opt/csrc/core/reduction/network_data.h"
#include "horovod_opt/csrc/core/reduction/reduce_scatter.h"

namespace horovod_opt {
namespace {

using Outcome = NodeCollectives::Outcome;

// An allreduce of a word that nobody looks at: it compares tags.
AllreduceData NoData() {
  return AllreduceDataOf(std::make_shared<Words>(1),
                         &elementwise::Reduce<std::uint64_t, elementwise::Sum>);
}

}  // namespace

HierarchicalCollectives::HierarchicalCollectives(NodeCollectives& node, Groups groups,
                                                 HostLinks* links)
    : node_(node), groups_(std::move(groups)), links_(links) {}

int HierarchicalCollectives::PlaceOf(int rank) const {
  const auto place = std::find(groups_.all.begin(), groups_.all.end(), rank);
  return static_cast<int>(place - groups_.all.begin());
}

char* HierarchicalCollectives::Take(BufferPool::Buffer& buffer, std::int64_t bytes) {
  buffers_.Return(std::move(buffer));
  buffer = buffers_.Take(bytes);
  return buffer.data.get();
}

bool HierarchicalCollectives::Compare(const Call& call) {
  if (ranks() > 1 &&
      node_.Broadcast(nullptr, 0, 0, call.tag, call.stop, call.waits) != Outcome::kDone) {
    return false;
  }
  return Exchange(NoData(), call);
}

bool HierarchicalCollectives::Exchange(AllreduceData data, const Call& call) {
  const auto outcome =
      std::make_shared<NonblockingAllreduce::Outcome>(NonblockingAllreduce::Outcome::kDone);
  auto allreduce = std::make_unique<NonblockingAllreduce>(
      links_->members(), links_->self(), 0, call.tag, std::move(data),
      [outcome](NonblockingAllreduce::Outcome found) { *outcome = found; },
      NonblockingAllreduce::Sizes());
  if (!links_->Run(std::move(allreduce), call.stop)) return false;
  if (*outcome != NonblockingAllreduce::Outcome::kDone) throw HostsDiffer();
  return true;
}

bool HierarchicalCollectives::GoRound(BlockRing::Kind kind, BlockRing::Memory memory,
                                      const std::vector<BlockRing::Block>& blocks,
                                      const Arithmetic& arithmetic, const Call& call) {
  return links_->Run(std::make_unique<BlockRing>(
                         kind, links_->members(), links_->self(), 0, memory, blocks, arithmetic,
                         [] {}, NonblockingAllreduce::Sizes().chunk),
                     call.stop);
}

bool HierarchicalCollectives::Allreduce(const std::shared_ptr<const BucketReduction>& bucket,
                                        const Call& call) {
  if (OnOneHost()) return node_.Allreduce(*bucket, call.tag, call.stop, call.waits);
  if (ranks() == 1) return Exchange(WholeBucket(bucket), call);
  const std::vector<std::int64_t> ends = EqualParts(bucket->Bytes(), ranks());
  const std::int64_t bytes = BytesOfPart(ends, groups_.index);
  char* const part = Take(part_, bytes);
  return node_.ReduceParts(*bucket, ends, part, call.tag, call.stop, call.waits) &&
         Exchange(PartOfBucket(bucket, part, bytes), call) &&
         node_.GatherParts(*bucket, ends, part, call.tag, call.stop, call.waits);
}

// The ranks with the root's number pass it on; then each has it for its host.
bool HierarchicalCollectives::Broadcast(void* data, std::int64_t bytes, int root,
                                        const Call& call) {
  const auto on_host = [&](int number) {
    return node_.Broadcast(data, bytes, number, call.tag, call.stop, call.waits) == Outcome::kDone;
  };
  if (OnOneHost()) return on_host(root);
  if (!Compare(call)) return false;
  const int place = PlaceOf(root);
  if (place % ranks() == groups_.index) {
    std::vector<BlockRing::Block> blocks(static_cast<std::size_t>(hosts()));
    blocks[place / ranks()].bytes = bytes;
    const BlockRing::Memory memory{nullptr, static_cast<char*>(data)};
    if (!GoRound(BlockRing::Kind::kAllgather, memory, blocks, BlockRing::kNoArithmetic, call))
      return false;
  }
  return ranks() == 1 || on_host(place % ranks());
}

bool HierarchicalCollectives::Allgather(const void* data, std::int64_t bytes, void* output,
                                        const Call& call) {
  const auto on_host = [&](const void* from, std::int64_t of_rank, void* to) {
    return node_.Allgather(
               from, 1, of_rank, [to](const std::vector<std::int64_t>&) { return to; }, call.tag,
               call.stop, call.waits) == Outcome::kDone;
  };
  if (OnOneHost()) return on_host(data, bytes, output);
  if (!Compare(call)) return false;
  char* const to = static_cast<char*>(output);
  const bool in_place = ranks() == 1;
  char* const part = in_place ? to : Take(part_, hosts() * bytes);
  std::vector<BlockRing::Block> blocks;
  for (int host = 0; host < hosts(); ++host) {
    blocks.push_back({(in_place ? RankAt(host, 0) : host) * bytes, bytes});
  }
  // Where the data lies in the output, as in FSDP, it may be there already.
  std::memmove(part + blocks[groups_.group].begin, data, static_cast<std::size_t>(bytes));
  if (!GoRound(BlockRing::Kind::kAllgather, {nullptr, part}, blocks, BlockRing::kNoArithmetic,
               call)) {
    return false;
  }
  if (in_place) return true;
  const char* from = Take(gathered_, ranks() * hosts() * bytes);
  if (!on_host(part, hosts() * bytes, gathered_.data.get())) return false;
  for (int number = 0; number < ranks(); ++number) {
    for (int host = 0; host < hosts(); ++host) {
      std::copy_n(from, bytes, to + RankAt(host, number) * bytes);
      from += bytes;
    }
  }
  return true;
}

bool HierarchicalCollectives::ReduceScatter(const void* data, void* output, std::int64_t bytes,
                                            const Arithmetic& arithmetic, double prescale,
                                            double postscale, const Call& call) {
  const char* const in = static_cast<const char*>(data);
  if (OnOneHost()) {
    std::vector<std::int64_t> ends;
    for (int rank = 1; rank <= ranks(); ++rank) ends.push_back(rank * bytes);
    return node_.ReduceScatter(data, output, ends, arithmetic, prescale, postscale, call.tag,
                               call.stop, call.waits) == Outcome::kDone;
  }
  // What goes to the ranks of one number is one part, by host.
  std::vector<Segment> segments;
  std::vector<std::int64_t> ends;
  std::vector<BlockRing::Block> blocks;
  for (int number = 0; number < ranks(); ++number) {
    for (int host = 0; host < hosts(); ++host) {
      segments.push_back({in + RankAt(host, number) * bytes, nullptr, bytes});
    }
    ends.push_back((number + 1) * hosts() * bytes);
  }
  for (int host = 0; host < hosts(); ++host) blocks.push_back({host * bytes, bytes});
  const BucketReduction bucket(std::move(segments), arithmetic, prescale, postscale);
  char* const part = Take(part_, hosts() * bytes);
  if (ranks() > 1) {
    if (!node_.ReduceParts(bucket, ends, part, call.tag, call.stop, call.waits)) return false;
  } else {
    bucket.Contribute(0, bucket.Bytes(), part);
  }
  char* const sum = static_cast<char*>(output);
  if (!Exchange(NoData(), call) ||
      !GoRound(BlockRing::Kind::kReduceScatter, {part, sum}, blocks, arithmetic, call)) {
    return false;
  }
  bucket.ScaleSum(sum, bytes);
  return true;
}

bool HierarchicalCollectives::Alltoall(const PieceCopy::Pieces& pieces, const Call& call) {
  if (!OnOneHost()) throw std::logic_error("an alltoall over several hosts");
  return node_.Alltoall(pieces, call.tag, call.stop, call.waits) == Outcome::kDone;
}

}  // namespace horovod_opt
