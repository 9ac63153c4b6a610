// Collectives in shared memory, of the ranks of a group, called node here. Waits sleep in the
// kernel.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/reduction/chunked_copy.h"
#include "horovod_opt/csrc/core/reduction/reduce_scatter.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"
#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// One rank's part. Every rank has one over the same memory, makes calls from one thread at a time,
// and all make the same calls in the same order.
//
// All calls return false, or kStopped, if `stop` was set while waiting for another rank; noticed
// after Kick(), and without it within 100 ms. Outputs are then undefined and the memory is of no
// further use.
//
// `tag` says what the caller believes is being done. If tags differ, or sizes that must not, every
// rank throws the same std::logic_error naming two of them, before any output is written, and may
// go on with another call.
class NodeCollectives {
 public:
  static constexpr std::size_t kDefaultChunk = 2 << 20;  // bytes

  enum class Outcome {
    kDone,
    kStopped,
    kIncomplete,  // a rank has stayed away
  };

  // Shared memory for `ranks` ranks that move `chunk` bytes at a time: about 2 * ranks * chunk.
  static std::size_t Bytes(int ranks, std::size_t chunk = kDefaultChunk) {
    return BucketLayout::Bytes(ranks, chunk);
  }

  // `memory`: `bytes` zeroed bytes, aligned to 64, the same on every rank; the chunk follows from
  // their number. Throws std::invalid_argument if they are too few or the rank is not in
  // 0..ranks-1.
  NodeCollectives(void* memory, std::size_t bytes, int rank, int ranks);

  // Writes ((r0 + r1) + r2) + ... to every output on every rank, where "+" is the arithmetic's
  // reduction and r0, r1, ... are the ranks' inputs; the same bits everywhere, whatever the chunk.
  // The bucket's prescale multiplies each input first and its postscale the result; a factor of 1
  // does nothing. Collective: the same numbers of bytes, arithmetic and factors on every rank.
  bool Allreduce(const BucketReduction& bucket, std::uint64_t tag, const std::atomic<bool>& stop,
                 WaitCounts& counts);

  // The same in two halves, between which other calls may come. Each rank adds up its own part of
  // the bucket, those bytes that begin where the part of the rank before ends, and is given it
  // without the postscale. In the second half it shows its `result` to the others; every rank
  // writes all of them to its outputs. `ends`: of the parts, in bytes, by rank, whole elements, the
  // same on every rank.
  bool ReduceParts(const BucketReduction& bucket, const std::vector<std::int64_t>& ends, char* sums,
                   std::uint64_t tag, const std::atomic<bool>& stop, WaitCounts& counts);
  bool GatherParts(const BucketReduction& bucket, const std::vector<std::int64_t>& ends,
                   const char* result, std::uint64_t tag, const std::atomic<bool>& stop,
                   WaitCounts& counts);

  // Gathers `rows` rows of `row_bytes` bytes from each rank, in the order of ranks. `rows` may
  // differ from rank to rank. Once all numbers of rows are known, `output` says where the result
  // goes; nullptr: it is not wanted on this rank. It must not throw.
  using GatheredRows = std::function<void*(const std::vector<std::int64_t>& rows)>;
  Outcome Allgather(const void* data, std::int64_t rows, std::int64_t row_bytes,
                    const GatheredRows& output, std::uint64_t tag, const std::atomic<bool>& stop,
                    WaitCounts& counts);

  // Copies `bytes` bytes of `root` to all others. `data` is read on the root and written elsewhere.
  Outcome Broadcast(void* data, std::int64_t bytes, int root, std::uint64_t tag,
                    const std::atomic<bool>& stop, WaitCounts& counts);

  // Each rank gives every rank a piece, of any size. Throws PieceDiffers on all ranks if one is given
  // what it does not expect.
  Outcome Alltoall(const PieceCopy::Pieces& pieces, std::uint64_t tag,
                   const std::atomic<bool>& stop, WaitCounts& counts);

  // As Allreduce() over one group; but of the sum each rank gets its own part alone, those bytes
  // that begin where the part of the rank before ends. `ends`: in bytes, by rank, whole elements,
  // the same on every rank.
  Outcome ReduceScatter(const void* data, void* output, const std::vector<std::int64_t>& ends,
                        const Arithmetic& arithmetic, double prescale, double postscale,
                        std::uint64_t tag, const std::atomic<bool>& stop, WaitCounts& counts);

  // In place of one of these three, on a rank that has nothing to give: no rank performs it.
  bool StayAway(const std::atomic<bool>& stop, WaitCounts& counts);

  // Makes all ranks that wait look at their `stop`.
  void Kick();

  // In which barrier the rank waits, and how many have come to it; "" if in none. Any thread.
  std::string DescribeBarrier() const;

  // The parts of the memory that this rank writes most, and the bytes of each.
  std::array<char*, 2> OwnMemory() const { return layout_.OwnRows(); }
  std::int64_t OwnBytes() const { return layout_.RowBytes(); }

 private:
  using Field = std::int64_t BucketLayout::Announcement::*;

  bool Meet(const std::atomic<bool>& stop, WaitCounts& counts);
  // Announces the call and makes its first copy, and waits for those of the others. kDone: all of
  // them go on. `same`: as in Compare().
  template <class Copies>
  Outcome Begin(const BucketLayout::Announcement& announcement, Field same, Copies& copies,
                const std::atomic<bool>& stop, WaitCounts& counts);
  // After Begin(). Calls use(chunk) for each of `chunks` chunks, once all ranks have copied it in.
  template <class Copies, class Use>
  Outcome Finish(std::int64_t chunks, Copies& copies, const Use& use, const std::atomic<bool>& stop,
                 WaitCounts& counts);
  bool AnyoneAway(std::uint64_t copy) const;
  // Of the announcements, their tags and what `same` says have to be the same.
  void Compare(std::uint64_t copy, Field same) const;

  const BucketLayout layout_;
  // Arrived at so far. One thread writes it, DescribeBarrier() reads it elsewhere.
  std::atomic<std::uint64_t> barriers_{0};
  std::uint64_t copies_ = 0;  // copied in so far
  SliceSums::Blocks blocks_;
};

}  // namespace horovod_opt
