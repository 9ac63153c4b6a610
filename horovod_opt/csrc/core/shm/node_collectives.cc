#include "horovod_opt/csrc/core/shm/node_collectives.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/core/shm/chunked_copy.h"
#include "horovod_opt/csrc/core/shm/flat_allreduce.h"
#include "horovod_opt/csrc/core/shm/node_barrier.h"
#include "horovod_opt/csrc/core/shm/reduce_scatter.h"
#include "horovod_opt/csrc/core/shm/reduce_scatter_allgather.h"

namespace horovod_opt {
namespace {

// A call is flat up to this many bytes in all rows. Measured on two cores with 2, 4 and 8 ranks:
// above, reading all rows costs more than a second barrier.
constexpr std::int64_t kFlat = 128 << 10;

constexpr std::int64_t kAway = -1;  // announced instead of a size

std::string Text(const BucketLayout::Announcement& announcement) {
  const std::string rows =
      announcement.row_bytes == 0
          ? ""
          : " rows of " + std::to_string(announcement.row_bytes);
  return "tag " + std::to_string(announcement.tag) + " of " + std::to_string(announcement.size) +
         rows + " bytes";
}

}  // namespace

NodeCollectives::NodeCollectives(void* memory, std::size_t bytes, int rank, int ranks)
    : layout_(memory, bytes, rank, ranks) {}

template <class Differ>
void NodeCollectives::Compare(std::uint64_t copy, const Differ& differ) const {
  const BucketLayout::Announcement& first = layout_.Announced(copy, 0);
  for (int rank = 1; rank < layout_.ranks(); ++rank) {
    const BucketLayout::Announcement& other = layout_.Announced(copy, rank);
    if (!differ(first, other)) continue;
    throw std::logic_error("local ranks 0 and " + std::to_string(rank) +
                           " have different buckets: " + Text(first) + " and " +
                           Text(other));
  }
}

bool NodeCollectives::Allreduce(const std::vector<Segment>& segments, const Arithmetic& arithmetic,
                                double prescale, double postscale, const CrossReduce& cross,
                                std::uint64_t tag, const std::atomic<bool>& stop,
                                WaitCounts& counts) {
  const BucketReduction bucket(segments, arithmetic, prescale, postscale);
  const std::int64_t bytes = bucket.Bytes();
  const std::uint64_t first = copies_++;
  const auto meet = [&] { return Meet(stop, counts); };
  layout_.Announced(first, layout_.rank()) = {tag, bytes, 0};
  if (!cross && bytes * layout_.ranks() <= kFlat && FlatAllreduce::Fits(bytes, layout_)) {
    FlatAllreduce flat(bucket, layout_, first, block_);
    flat.CopyIn();
    if (!meet()) return false;
    CompareAnnouncements(first);
    flat.ReduceAll();
    return true;
  }
  ReduceScatterAllgather chunked(bucket, layout_, cross, first, block_);
  chunked.CopyIn(0);
  if (!meet()) return false;
  CompareAnnouncements(first);
  copies_ = first + static_cast<std::uint64_t>(chunked.chunks());
  return chunked.Run(meet);
}

NodeCollectives::Outcome NodeCollectives::Allgather(const void* data, std::int64_t rows,
                                                    std::int64_t row_bytes,
                                                    const GatheredRows& output, std::uint64_t tag,
                                                    const std::atomic<bool>& stop,
                                                    WaitCounts& counts) {
  const std::uint64_t first = copies_++;
  ChunkedCopy copy(layout_, first, data, rows * row_bytes);
  layout_.Announced(first, layout_.rank()) = {tag, rows, row_bytes};
  copy.CopyIn(0);
  if (!Meet(stop, counts)) return Outcome::kStopped;
  if (AnyoneAway(first)) return Outcome::kIncomplete;
  Compare(first, [](const auto& one, const auto& other) {
    return one.tag != other.tag || one.row_bytes != other.row_bytes;
  });
  std::vector<std::int64_t> all_rows;
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    all_rows.push_back(layout_.Announced(first, rank).size);
  }
  const std::int64_t most = *std::max_element(all_rows.begin(), all_rows.end());
  const std::int64_t chunks = std::max<std::int64_t>(1, copy.Chunks(most * row_bytes));
  copies_ = first + static_cast<std::uint64_t>(chunks);
  char* const to = static_cast<char*>(output(all_rows));
  for (std::int64_t chunk = 0;;) {
    char* part = to;
    for (int rank = 0; rank < layout_.ranks() && to != nullptr; ++rank) {
      copy.CopyOut(chunk, rank, all_rows[rank] * row_bytes, part);
      part += all_rows[rank] * row_bytes;
    }
    if (++chunk == chunks) return Outcome::kDone;
    copy.CopyIn(chunk);
    if (!Meet(stop, counts)) return Outcome::kStopped;
  }
}

NodeCollectives::Outcome NodeCollectives::Broadcast(void* data, std::int64_t bytes, int root,
                                                    std::uint64_t tag,
                                                    const std::atomic<bool>& stop,
                                                    WaitCounts& counts) {
  const bool gives = layout_.rank() == root;
  const std::uint64_t first = copies_++;
  ChunkedCopy copy(layout_, first, data, gives ? bytes : 0);
  layout_.Announced(first, layout_.rank()) = {tag, bytes, 0};
  copy.CopyIn(0);
  if (!Meet(stop, counts)) return Outcome::kStopped;
  if (AnyoneAway(first)) return Outcome::kIncomplete;
  CompareAnnouncements(first);
  const std::int64_t chunks = std::max<std::int64_t>(1, copy.Chunks(bytes));
  copies_ = first + static_cast<std::uint64_t>(chunks);
  for (std::int64_t chunk = 0;;) {
    if (!gives) copy.CopyOut(chunk, root, bytes, data);
    if (++chunk == chunks) return Outcome::kDone;
    copy.CopyIn(chunk);
    if (!Meet(stop, counts)) return Outcome::kStopped;
  }
}

NodeCollectives::Outcome NodeCollectives::ReduceScatter(
    const void* data, void* output, const std::vector<std::int64_t>& ends,
    const Arithmetic& arithmetic, double prescale, double postscale, std::uint64_t tag,
    const std::atomic<bool>& stop, WaitCounts& counts) {
  const std::vector<Segment> segments{{data, nullptr, ends.back()}};
  const BucketReduction bucket(segments, arithmetic, prescale, postscale);
  const std::uint64_t first = copies_++;
  horovod_opt::ReduceScatter parts(bucket, layout_, first, ends, block_, output);
  layout_.Announced(first, layout_.rank()) = {tag, ends.back(), 0};
  parts.CopyIn(0);
  if (!Meet(stop, counts)) return Outcome::kStopped;
  if (AnyoneAway(first)) return Outcome::kIncomplete;
  CompareAnnouncements(first);
  copies_ = first + static_cast<std::uint64_t>(parts.chunks());
  for (std::int64_t chunk = 0;;) {
    parts.ReduceOwn(chunk);
    if (++chunk == parts.chunks()) return Outcome::kDone;
    parts.CopyIn(chunk);
    if (!Meet(stop, counts)) return Outcome::kStopped;
  }
}

bool NodeCollectives::StayAway(const std::atomic<bool>& stop, WaitCounts& counts) {
  layout_.Announced(copies_++, layout_.rank()) = {0, kAway, 0};
  return Meet(stop, counts);
}

bool NodeCollectives::AnyoneAway(std::uint64_t copy) const {
  for (int rank = 0; rank < layout_.ranks(); ++rank) {
    if (layout_.Announced(copy, rank).size == kAway) return true;
  }
  return false;
}

void NodeCollectives::Kick() { layout_.barrier().Kick(); }

bool NodeCollectives::Meet(const std::atomic<bool>& stop, WaitCounts& counts) {
  return layout_.barrier().Pass(++barriers_, layout_.ranks(), stop, counts);
}

void NodeCollectives::CompareAnnouncements(std::uint64_t copy) const {
  Compare(copy, [](const auto& one, const auto& other) {
    return one.tag != other.tag || one.size != other.size;
  });
}

}  // namespace horovod_opt
