// Elementwise reduction over the ranks of a group through shared memory, and over groups through
// whatever connects them. Waits sleep in the kernel.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "horovod_opt/csrc/core/shm/bucket_layout.h"
#include "horovod_opt/csrc/core/shm/bucket_reduction.h"
#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// One rank's part in the reductions of its group, called node here. Every rank has one over the
// same memory, calls Run() from one thread at a time, and all make the same calls in the same
// order.
class NodeAllreduce {
 public:
  static constexpr std::size_t kDefaultChunk = 2 << 20;  // bytes

  // Shared memory for `ranks` ranks that reduce `chunk` bytes at a time: about 2 * ranks * chunk.
  static std::size_t Bytes(int ranks, std::size_t chunk = kDefaultChunk) {
    return BucketLayout::Bytes(ranks, chunk);
  }

  // `memory`: `bytes` zeroed bytes, aligned to 64, the same on every rank; the chunk follows from
  // their number. Throws std::invalid_argument if they are too few or the rank is not in
  // 0..ranks-1.
  NodeAllreduce(void* memory, std::size_t bytes, int rank, int ranks);

  // Writes ((r0 + r1) + r2) + ... to every output on every rank, where "+" is the arithmetic's
  // reduction and r0, r1, ... are the ranks' inputs; the same bits everywhere, whatever the chunk.
  // With several groups these are the sums that `cross` adds up. Every element passes through it
  // once, on one rank of the group, so the result is the same everywhere if that of `cross` is.
  // `prescale` multiplies each input first and `postscale` the result; a factor of 1 does nothing.
  // Collective: the same numbers of bytes, arithmetic and factors on every rank.
  //
  // False if `stop` was set while waiting for another rank; noticed after Kick(), and without it
  // within 100 ms; or if `cross` was false. Outputs are then undefined and the memory is of no
  // further use.
  //
  // `tag` says what the caller believes is being reduced. If tags or total bytes differ, every rank
  // throws the same std::logic_error naming two of them, before any output is written, and may go
  // on with another call. std::invalid_argument if a segment is not a whole number of elements.
  bool Run(const std::vector<Segment>& segments, const Arithmetic& arithmetic, double prescale,
           double postscale, const CrossReduce& cross, std::uint64_t tag,
           const std::atomic<bool>& stop, WaitCounts& counts);

  // Makes all ranks that wait in Run() look at their `stop`.
  void Kick();

 private:
  bool Meet(const std::atomic<bool>& stop, WaitCounts& counts);
  void CompareAnnouncements(std::uint64_t copy) const;

  const BucketLayout layout_;
  std::uint64_t barriers_ = 0;  // arrived at so far
  std::uint64_t copies_ = 0;    // copied in so far
  alignas(64) char block_[BucketReduction::kBlock];
};

}  // namespace horovod_opt
