// Reduce-scatter and allgather: each rank owns one slice of every chunk of the bucket and reduces
// it for all (Rabenseifner's algorithm; Thakur, Rabenseifner and Gropp, IJHPCA 19(1), 2005, section
// 4.5), in shared memory, one chunk after the other.
//
// A rank copies into its row what others own; they meet; it reduces its slice into its own output
// and, for the others, into the place in its row that it left free; they meet; it copies out the
// results of the others. Between two barriers a rank works on three chunks: it reduces one, copies
// the result of the last one out and the next one in, so that n chunks need n + 1 barriers. With
// several groups the owner of a slice reduces it over the groups before the barrier that shows it
// to the others.
#pragma once

#include <cstdint>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/reduction/reduce_scatter.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"

namespace horovod_opt {

class ReduceScatterAllgather {
 public:
  // Chunk n uses copy `first` + n of the layout.
  ReduceScatterAllgather(const BucketReduction& bucket, const BucketLayout& layout,
                         std::uint64_t first, SliceSums::Blocks& blocks);

  std::int64_t chunks() const { return chunks_; }
  void CopyIn(std::int64_t chunk);
  // After CopyIn(0) and a barrier. `meet` is a barrier, false if it was left.
  template <class Meet>
  bool Run(const Meet& meet) {
    for (std::int64_t chunk = 0; chunk < chunks_; ++chunk) {
      ReduceOwn(chunk);
      if (chunk > 0) CopyOut(chunk - 1);
      if (chunk + 1 < chunks_) CopyIn(chunk + 1);
      if (!meet()) return false;
    }
    CopyOut(chunks_ - 1);
    return true;
  }

 private:
  // The slice of `chunk` that `owner` reduces; empty at the end of a bucket that does not divide.
  SliceSums::Range Slice(std::int64_t chunk, int owner) const;
  void ReduceOwn(std::int64_t chunk);
  void CopyOut(std::int64_t chunk) const;

  const BucketReduction& bucket_;
  const BucketLayout& layout_;
  SliceSums sums_;
  std::int64_t chunks_ = 0;
  std::int64_t chunk_bytes_ = 0;  // of all but the last, which may have fewer
  std::int64_t slice_bytes_ = 0;
};

}  // namespace horovod_opt
