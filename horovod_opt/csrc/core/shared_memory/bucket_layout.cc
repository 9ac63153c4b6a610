#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"

#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/core/base/rounding.h"
#include "horovod_opt/csrc/core/shared_memory/node_barrier.h"

namespace horovod_opt {
namespace {

// The largest whole number of cache lines for a slice so that everything fits into `bytes`.
std::int64_t SliceBytes(std::size_t bytes, int rank, int ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw std::invalid_argument("local rank " + std::to_string(rank) + " is not one of " +
                                std::to_string(ranks));
  }
  const std::size_t least = BucketLayout::Bytes(ranks, 1);
  if (bytes < least) {
    throw std::invalid_argument("reductions of " + std::to_string(ranks) + " ranks need at least " +
                                std::to_string(least) + " bytes of shared memory, not " +
                                std::to_string(bytes));
  }
  const std::int64_t row = static_cast<std::int64_t>(bytes - sizeof(NodeBarrier)) / (2 * ranks);
  return (row - kCacheLine) / ranks / kCacheLine * kCacheLine;
}

}  // namespace

std::size_t BucketLayout::Bytes(int ranks, std::size_t chunk) {
  const std::size_t count = static_cast<std::size_t>(ranks);
  const std::size_t lines = CeilDiv(chunk, count * kCacheLine);  // of a slice
  return sizeof(NodeBarrier) + 2 * count * (1 + count * lines) * kCacheLine;
}

BucketLayout::BucketLayout(void* memory, std::size_t bytes, int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      barrier_(static_cast<NodeBarrier*>(memory)),
      buffers_(static_cast<char*>(memory) + sizeof(NodeBarrier)),
      slice_(SliceBytes(bytes, rank, ranks)) {}

BucketLayout::Announcement& BucketLayout::AnnouncementOf(std::uint64_t copy, int rank) const {
  return *reinterpret_cast<Announcement*>(Row(copy, rank));
}

char* BucketLayout::Place(std::uint64_t copy, int rank, int owner) const {
  return Row(copy, rank) + sizeof(Announcement) + owner * slice_;
}

std::int64_t BucketLayout::RowBytes() const {
  return static_cast<std::int64_t>(sizeof(Announcement)) + ranks_ * slice_;
}

char* BucketLayout::Row(std::uint64_t copy, int rank) const {
  return buffers_ + (static_cast<std::int64_t>(copy % 2) * ranks_ + rank) * RowBytes();
}

}  // namespace horovod_opt
