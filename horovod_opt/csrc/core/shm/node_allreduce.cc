#include "horovod_opt/csrc/core/shm/node_allreduce.h"

#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/core/shm/flat_allreduce.h"
#include "horovod_opt/csrc/core/shm/node_barrier.h"
#include "horovod_opt/csrc/core/shm/reduce_scatter_allgather.h"

namespace horovod_opt {
namespace {

// A call is flat up to this many bytes in all rows. Measured on two cores with 2, 4 and 8 ranks:
// above, reading all rows costs more than a second barrier.
constexpr std::int64_t kFlat = 128 << 10;

std::string Text(const BucketLayout::Announcement& announcement) {
  return "tag " + std::to_string(announcement.tag) + " of " + std::to_string(announcement.bytes) +
         " bytes";
}

}  // namespace

NodeAllreduce::NodeAllreduce(void* memory, std::size_t bytes, int rank, int ranks)
    : layout_(memory, bytes, rank, ranks) {}

bool NodeAllreduce::Run(const std::vector<Segment>& segments, const Arithmetic& arithmetic,
                        double prescale, double postscale, const CrossReduce& cross,
                        std::uint64_t tag, const std::atomic<bool>& stop, WaitCounts& counts) {
  const BucketReduction bucket(segments, arithmetic, prescale, postscale);
  const std::int64_t bytes = bucket.Bytes();
  const std::uint64_t first = copies_++;
  const auto meet = [&] { return Meet(stop, counts); };
  layout_.Announced(first, layout_.rank()) = {tag, bytes};
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

void NodeAllreduce::Kick() { layout_.barrier().Kick(); }

bool NodeAllreduce::Meet(const std::atomic<bool>& stop, WaitCounts& counts) {
  return layout_.barrier().Pass(++barriers_, layout_.ranks(), stop, counts);
}

void NodeAllreduce::CompareAnnouncements(std::uint64_t copy) const {
  const BucketLayout::Announcement& first = layout_.Announced(copy, 0);
  for (int rank = 1; rank < layout_.ranks(); ++rank) {
    const BucketLayout::Announcement& other = layout_.Announced(copy, rank);
    if (other.tag == first.tag && other.bytes == first.bytes) continue;
    throw std::logic_error("local ranks 0 and " + std::to_string(rank) +
                           " reduce different buckets: " + Text(first) + " and " + Text(other));
  }
}

}  // namespace horovod_opt
