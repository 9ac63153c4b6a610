#include "horovod_opt/csrc/core/reduction/node_collectives.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/core/reduction/flat_allreduce.h"
#include "horovod_opt/csrc/core/reduction/reduce_scatter_allgather.h"
#include "horovod_opt/csrc/core/shared_memory/node_barrier.h"

namespace horovod_opt {
namespace {

using Announcement = BucketLayout::Announcement;

// A call is flat up to this many bytes in all rows. Measured on two cores with 2, 4 and 8 ranks:
// above, reading all rows costs more than a second barrier.
constexpr std::int64_t kFlat = 128 << 10;

constexpr std::int64_t kAway = -1;  // announced instead of a size

std::string Text(const Announcement& announcement) {
  const std::string rows =
      announcement.row_bytes == 0 ? "" : " rows of " + std::to_string(announcement.row_bytes);
  return "tag " + std::to_string(announcement.tag) + " of " + std::to_string(announcement.size) +
         rows + " bytes";
}

}  // namespace

NodeCollectives::NodeCollectives(void* memory, std::size_t bytes, int rank, int ranks)
    : layout_(memory, bytes, rank, ranks) {}

template <class Copies>
NodeCollectives::Outcome NodeCollectives::Begin(const Announcement& announcement, Field same,
                                                Copies& copies, const std::atomic<bool>& stop,
                                                WaitCounts& counts) {
  const std::uint64_t first = copies_++;
  layout_.AnnouncementOf(first, layout_.rank()) = announcement;
  copies.CopyIn(0);
  if (!Meet(stop, counts)) return Outcome::kStopped;
  if (AnyoneAway(first)) return Outcome::kIncomplete;
  Compare(first, same);
  return Outcome::kDone;
}

template <class Copies, class Use>
NodeCollectives::Outcome NodeCollectives::Finish(std::int64_t chunks, Copies& copies,
                                                 const Use& use, const std::atomic<bool>& stop,
                                                 WaitCounts& counts) {
  copies_ += static_cast<std::uint64_t>(chunks - 1);
  for (std::int64_t chunk = 0;;) {
    use(chunk);
    if (++chunk == chunks) return Outcome::kDone;
    copies.CopyIn(chunk);
    if (!Meet(stop, counts)) return Outcome::kStopped;
  }
}

bool NodeCollectives::Allreduce(const BucketReduction& bucket, std::uint64_t tag,
                                const std::atomic<bool>& stop, WaitCounts& counts) {
  const std::int64_t bytes = bucket.Bytes();
  const std::uint64_t first = copies_++;
  const auto meet = [&] { return Meet(stop, counts); };
  layout_.AnnouncementOf(first, layout_.rank()) = {tag, bytes, 0};
  if (bytes * layout_.ranks() <= kFlat && FlatAllreduce::Fits(bytes, layout_)) {
    FlatAllreduce flat(bucket, layout_, first, blocks_.sum);
    flat.CopyIn();
    if (!meet()) return false;
    Compare(first, &Announcement::size);
    flat.ReduceAll();
    return true;
  }
  ReduceScatterAllgather chunked(bucket, layout_, first, blocks_);
  chunked.CopyIn(0);
  if (!meet()) return false;
  Compare(first, &Announcement::size);
  copies_ = first + static_cast<std::uint64_t>(chunked.chunks());
  return chunked.Run(meet);
}

bool NodeCollectives::ReduceParts(const BucketReduction& bucket,
                                  const std::vector<std::int64_t>& ends, char* sums,
                                  std::uint64_t tag, const std::atomic<bool>& stop,
                                  WaitCounts& counts) {
  horovod_opt::ReduceScatter parts(bucket, layout_, copies_, ends, blocks_, sums);
  if (Begin({tag, bucket.Bytes(), 0}, &Announcement::size, parts, stop, counts) != Outcome::kDone) {
    return false;
  }
  const auto reduce_own = [&](std::int64_t chunk) { parts.ReduceOwn(chunk, false); };
  return Finish(parts.chunks(), parts, reduce_own, stop, counts) == Outcome::kDone;
}

bool NodeCollectives::GatherParts(const BucketReduction& bucket,
                                  const std::vector<std::int64_t>& ends, const char* result,
                                  std::uint64_t tag, const std::atomic<bool>& stop,
                                  WaitCounts& counts) {
  PartGather parts(bucket, layout_, copies_, ends, result);
  if (Begin({tag, bucket.Bytes(), 0}, &Announcement::size, parts, stop, counts) != Outcome::kDone) {
    return false;
  }
  const auto copy_out = [&](std::int64_t chunk) { parts.CopyOut(chunk); };
  return Finish(parts.chunks(), parts, copy_out, stop, counts) == Outcome::kDone;
}

NodeCollectives::Outcome NodeCollectives::Allgather(const void* data, std::int64_t rows,
                                                    std::int64_t row_bytes,
                                                    const GatheredRows& output, std::uint64_t tag,
                                                    const std::atomic<bool>& stop,
                                                    WaitCounts& counts) {
  const std::uint64_t first = copies_;
  ChunkedCopy copy(layout_, first, data, rows * row_bytes);
  const Outcome outcome =
      Begin({tag, rows, row_bytes}, &Announcement::row_bytes, copy, stop, counts);
  if (outcome != Outcome::kDone) return outcome;
  std::vector<std::int64_t> all_rows;
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    all_rows.push_back(layout_.AnnouncementOf(first, rank).size);
  }
  const std::int64_t most = *std::max_element(all_rows.begin(), all_rows.end());
  char* const to = static_cast<char*>(output(all_rows));
  const auto copy_out = [&](std::int64_t chunk) {
    char* part = to;
    for (int rank = 0; rank < layout_.ranks() && to != nullptr; ++rank) {
      copy.CopyOut(chunk, rank, all_rows[rank] * row_bytes, part);
      part += all_rows[rank] * row_bytes;
    }
  };
  return Finish(copy.Chunks(most * row_bytes), copy, copy_out, stop, counts);
}

NodeCollectives::Outcome NodeCollectives::Broadcast(void* data, std::int64_t bytes, int root,
                                                    std::uint64_t tag,
                                                    const std::atomic<bool>& stop,
                                                    WaitCounts& counts) {
  const bool gives = layout_.rank() == root;
  ChunkedCopy copy(layout_, copies_, data, gives ? bytes : 0);
  const Outcome outcome = Begin({tag, bytes, 0}, &Announcement::size, copy, stop, counts);
  if (outcome != Outcome::kDone) return outcome;
  const auto copy_out = [&](std::int64_t chunk) {
    if (!gives) copy.CopyOut(chunk, root, bytes, data);
  };
  return Finish(copy.Chunks(bytes), copy, copy_out, stop, counts);
}

NodeCollectives::Outcome NodeCollectives::Alltoall(const PieceCopy::Pieces& pieces,
                                                   std::uint64_t tag, const std::atomic<bool>& stop,
                                                   WaitCounts& counts) {
  const std::uint64_t first = copies_;
  PieceCopy copy(layout_, first, pieces);
  const Outcome outcome =
      Begin({tag, copy.Longest(), 0}, &Announcement::row_bytes, copy, stop, counts);
  if (outcome != Outcome::kDone) return outcome;
  copy.Compare();
  std::int64_t longest = 0;
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    longest = std::max(longest, layout_.AnnouncementOf(first, rank).size);
  }
  return Finish(
      copy.Chunks(longest), copy, [&](std::int64_t chunk) { copy.CopyOut(chunk); }, stop, counts);
}

NodeCollectives::Outcome NodeCollectives::ReduceScatter(
    const void* data, void* output, const std::vector<std::int64_t>& ends,
    const Arithmetic& arithmetic, double prescale, double postscale, std::uint64_t tag,
    const std::atomic<bool>& stop, WaitCounts& counts) {
  const BucketReduction bucket({{data, nullptr, ends.back()}}, arithmetic, prescale, postscale);
  horovod_opt::ReduceScatter parts(bucket, layout_, copies_, ends, blocks_, output);
  const Outcome outcome = Begin({tag, ends.back(), 0}, &Announcement::size, parts, stop, counts);
  if (outcome != Outcome::kDone) return outcome;
  const auto reduce_own = [&](std::int64_t chunk) { parts.ReduceOwn(chunk, true); };
  return Finish(parts.chunks(), parts, reduce_own, stop, counts);
}

bool NodeCollectives::StayAway(const std::atomic<bool>& stop, WaitCounts& counts) {
  layout_.AnnouncementOf(copies_++, layout_.rank()) = {0, kAway, 0};
  return Meet(stop, counts);
}

bool NodeCollectives::AnyoneAway(std::uint64_t copy) const {
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    if (layout_.AnnouncementOf(copy, rank).size == kAway) return true;
  }
  return false;
}

void NodeCollectives::Kick() { layout_.barrier().Kick(); }

bool NodeCollectives::Meet(const std::atomic<bool>& stop, WaitCounts& counts) {
  const std::uint64_t number = barriers_.load(std::memory_order_relaxed) + 1;
  barriers_.store(number, std::memory_order_relaxed);
  return layout_.barrier().Pass(number, layout_.ranks(), stop, counts);
}

std::string NodeCollectives::DescribeBarrier() const {
  const std::uint64_t number = barriers_.load(std::memory_order_relaxed);
  if (number == 0) return "";
  const std::uint64_t arrived = layout_.barrier().Arrived(number, layout_.ranks());
  if (arrived == static_cast<std::uint64_t>(layout_.ranks())) return "";
  return "in barrier " + std::to_string(number) + " of the node, to which " +
         std::to_string(arrived) + " of " + std::to_string(layout_.ranks()) + " ranks have come";
}

void NodeCollectives::Compare(std::uint64_t copy, Field same) const {
  const Announcement& first = layout_.AnnouncementOf(copy, 0);
  for (int rank = 1; rank < layout_.ranks(); ++rank) {
    const Announcement& other = layout_.AnnouncementOf(copy, rank);
    if (first.tag == other.tag && first.*same == other.*same) continue;
    throw std::logic_error("local ranks 0 and " + std::to_string(rank) +
                           " have different buckets: " + Text(first) + " and " + Text(other));
  }
}

}  // namespace horovod_opt
