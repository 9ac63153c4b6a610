// Double buffering: where the ranks of a node put a bucket in shared memory.
//
// The memory is a barrier and two buffers. A buffer has one row per rank: an announcement and one
// slice per rank, each slice at a fixed place.
//
//     barrier | buffer 0: row of rank 0 | row of rank 1 | ... | buffer 1: ...
//     row:      announcement | slice of owner 0 | slice of owner 1 | ...
//
// Why two buffers and one barrier per copy suffice, for all algorithms (flat_allreduce.h,
// reduce_scatter_allgather.h, which alone has results, reduce_scatter.h, chunked_copy.h). Number
// the copies in over all calls. Copy n goes to buffer n % 2; let B(n) be the first barrier after
// it. A rank begins copy n + 2 after B(n + 1), where all have arrived, and writes over
// - copy n, which was read right after B(n) and so before anyone arrived at B(n + 1);
// - the results of chunk n, which are read after the barrier that follows B(n). If that is the last
//   of its call, it comes before B(n + 1), and so does the reading. Else it is B(n + 1) itself, and
//   copy n + 2 is either of the same call, and leaves the places of the results free until
//   B(n + 2), or of the next one, and then the last barrier of this call is in between.
// The announcement of a call is written with its first copy and read right after the barrier: the
// same. Ranks that disagree about the call have each made one copy, into their own row, and met
// once: they are still in step.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace horovod_opt {

class NodeBarrier;

class BucketLayout {
 public:
  // Of memory for `ranks` ranks that reduce `chunk` bytes at a time: about 2 * ranks * chunk.
  static std::size_t Bytes(int ranks, std::size_t chunk);

  // `memory`: `bytes` bytes, aligned to 64, the same on every rank. std::invalid_argument if they
  // are too few or the rank is not in 0..ranks-1.
  BucketLayout(void* memory, std::size_t bytes, int rank, int ranks);

  // What a rank is about to do.
  struct alignas(64) Announcement {
    std::uint64_t tag;
    std::int64_t size;       // bytes; of an allgather rows
    std::int64_t row_bytes;  // of an allgather
  };

  NodeBarrier& barrier() const { return *barrier_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  // Room for a slice in bytes, whole cache lines.
  std::int64_t slice() const { return slice_; }
  // Of `rank`, in the buffer of this copy.
  Announcement& AnnouncementOf(std::uint64_t copy, int rank) const;
  // Where `rank` puts what `owner` reduces. The places of all owners follow each other.
  char* Place(std::uint64_t copy, int rank, int owner) const;
  // What this rank writes and the others read: its row in each of the buffers, and their length.
  std::array<char*, 2> OwnRows() const { return {Row(0, rank_), Row(1, rank_)}; }
  std::int64_t RowBytes() const;

 private:
  char* Row(std::uint64_t copy, int rank) const;

  const int rank_;
  const int ranks_;
  NodeBarrier* const barrier_;
  char* const buffers_;
  const std::int64_t slice_;
};

}  // namespace horovod_opt
