// Reduce-scatter, and an allgather of what it has made, in shared memory: a bucket in parts, one a
// rank, which are moved a chunk at a time. reduce_scatter_allgather.h does both at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "horovod_opt/csrc/core/base/rounding.h"
#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"

namespace horovod_opt {

// Where the parts of a bucket end that are as equal as can be, in bytes, by rank. They begin at a cache
// line, and so at an element.
inline std::vector<std::int64_t> EqualParts(std::int64_t bytes, int ranks) {
  const std::int64_t part = CeilDiv(bytes, ranks * kCacheLine) * kCacheLine;
  std::vector<std::int64_t> ends;
  for (int rank = 1; rank <= ranks; ++rank) ends.push_back(std::min(bytes, rank * part));
  return ends;
}

inline std::int64_t BytesOfPart(const std::vector<std::int64_t>& ends, int rank) {
  return ends[rank] - (rank == 0 ? 0 : ends[rank - 1]);
}

// Where the parts begin and end, and what is moved of them at a time.
class ChunkedParts {
 public:
  // `ends`: of the parts, in bytes, by rank, whole elements.
  ChunkedParts(const BucketLayout& layout, const std::vector<std::int64_t>& ends,
               std::int64_t element)
      : ends_(ends), slice_bytes_(layout.slice() / element * element) {
    std::int64_t longest = 0;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      longest = std::max(longest, ends[rank] - Begin(rank));
    }
    chunks_ = std::max<std::int64_t>(1, (longest + slice_bytes_ - 1) / slice_bytes_);
  }

  // Of the bucket, in bytes.
  struct Range {
    std::int64_t begin, end;
  };

  std::int64_t chunks() const { return chunks_; }
  std::int64_t Begin(int owner) const { return owner == 0 ? 0 : ends_[owner - 1]; }
  Range Slice(std::int64_t chunk, int owner) const {
    const std::int64_t end = ends_[owner];
    const std::int64_t begin = std::min(Begin(owner) + chunk * slice_bytes_, end);
    return {begin, std::min(begin + slice_bytes_, end)};
  }

 private:
  const std::vector<std::int64_t>& ends_;
  const std::int64_t slice_bytes_;
  std::int64_t chunks_;
};

// The sums of a rank's own slice of each chunk. The others show it their contributions to the
// slice, and it adds them up.
class SliceSums {
 public:
  using Range = ChunkedParts::Range;

  // For this rank alone.
  struct Blocks {
    alignas(64) char contribution[BucketReduction::kBlock];
    alignas(64) char sum[BucketReduction::kBlock];
  };

  // Chunk n uses copy `first` + n of the layout.
  SliceSums(const BucketReduction& bucket, const BucketLayout& layout, std::uint64_t first,
            Blocks& blocks)
      : bucket_(bucket), layout_(layout), first_(first), blocks_(blocks), inputs_(layout.ranks()) {}

  // Where `rank` puts its part of what `owner` reduces.
  char* Place(std::int64_t chunk, int rank, int owner) const {
    return layout_.Place(first_ + static_cast<std::uint64_t>(chunk), rank, owner);
  }

  // `slice(owner)`: the range that it owns.
  template <class Slice>
  void CopyIn(std::int64_t chunk, const Slice& slice) const {
    for (int owner = 0; owner < layout_.ranks(); ++owner) {
      if (owner == layout_.rank()) continue;
      const Range range = slice(owner);
      bucket_.Contribute(range.begin, range.end, Place(chunk, layout_.rank(), owner));
    }
  }

  // After a barrier. Adds up `slice`, which this rank owns, one block after the other, each followed
  // by use(begin, end, sum), which may change the sum. It is at `to(begin, end)` if that is not
  // nullptr, which may be where this rank's contribution is; unless it has to be elsewhere.
  template <class To, class Use>
  void ReduceOwn(std::int64_t chunk, const Range& slice, const To& to, const Use& use) {
    const int own = layout_.rank();
    bucket_.ForEachBlock(slice.begin, slice.end, [&](std::int64_t begin, std::int64_t end) {
      for (int rank = 0; rank < layout_.ranks(); ++rank) {
        inputs_[rank] = Place(chunk, rank, own) + (begin - slice.begin);
      }
      const char* contribution = bucket_.Where(begin, end).in;
      if (contribution == nullptr) {
        bucket_.Contribute(begin, end, blocks_.contribution);
        contribution = blocks_.contribution;
      }
      inputs_[own] = contribution;
      char* sum = to(begin, end);
      const bool is_read_later =
          sum == contribution && own > 1;  // as BucketReduction::Reduce() says
      if (sum == nullptr || is_read_later) sum = blocks_.sum;
      bucket_.Reduce(sum, inputs_, end - begin);
      use(begin, end, sum);
    });
  }

 private:
  const BucketReduction& bucket_;
  const BucketLayout& layout_;
  const std::uint64_t first_;
  Blocks& blocks_;
  std::vector<const void*> inputs_;  // of one block, by rank
};

// Each rank adds up its own part of the contributions of all. One barrier a chunk, since nobody
// reads the sums of another rank.
class ReduceScatter {
 public:
  // Uses the copies of the layout from `first` on. `ends`: of the parts, in bytes, by rank.
  ReduceScatter(const BucketReduction& bucket, const BucketLayout& layout, std::uint64_t first,
                const std::vector<std::int64_t>& ends, SliceSums::Blocks& blocks, void* output)
      : bucket_(bucket),
        layout_(layout),
        parts_(layout, ends, bucket.element()),
        output_(static_cast<char*>(output)),
        sums_(bucket, layout, first, blocks) {}

  std::int64_t chunks() const { return parts_.chunks(); }
  void CopyIn(std::int64_t chunk) {
    sums_.CopyIn(chunk, [&](int owner) { return parts_.Slice(chunk, owner); });
  }
  // After a barrier. `scaled`: the sums are complete, so the postscale applies.
  void ReduceOwn(std::int64_t chunk, bool scaled) {
    const int own = layout_.rank();
    const std::int64_t part = parts_.Begin(own);
    const auto to = [&](std::int64_t begin, std::int64_t) { return output_ + (begin - part); };
    const auto finish = [&](std::int64_t begin, std::int64_t end, char* sum) {
      if (scaled) bucket_.ScaleSum(sum, end - begin);
      if (sum == to(begin, end)) return;
      std::memcpy(to(begin, end), sum, static_cast<std::size_t>(end - begin));
    };
    sums_.ReduceOwn(chunk, parts_.Slice(chunk, own), to, finish);
  }

 private:
  const BucketReduction& bucket_;
  const BucketLayout& layout_;
  const ChunkedParts parts_;
  char* const output_;
  SliceSums sums_;
};

// The other half of an allreduce after it: each rank shows the others its own part of the result.
// One barrier a chunk.
class PartGather {
 public:
  // Uses the copies of the layout from `first` on. `ends`: of the parts, in bytes, by rank.
  // `result`: this rank's part.
  PartGather(const BucketReduction& bucket, const BucketLayout& layout, std::uint64_t first,
             const std::vector<std::int64_t>& ends, const char* result)
      : bucket_(bucket),
        layout_(layout),
        first_(first),
        parts_(layout, ends, bucket.element()),
        result_(result) {}

  std::int64_t chunks() const { return parts_.chunks(); }

  void CopyIn(std::int64_t chunk) const {
    const int own = layout_.rank();
    const auto slice = parts_.Slice(chunk, own);
    if (slice.begin == slice.end) return;
    std::memcpy(Place(chunk, own), OwnPart(slice.begin),
                static_cast<std::size_t>(slice.end - slice.begin));
  }

  // After a barrier.
  void CopyOut(std::int64_t chunk) const {
    for (int owner = 0; owner < layout_.ranks(); ++owner) {
      const auto slice = parts_.Slice(chunk, owner);
      bucket_.Write(slice.begin, slice.end,
                    owner == layout_.rank() ? OwnPart(slice.begin) : Place(chunk, owner));
    }
  }

 private:
  // From this byte of the bucket on.
  const char* OwnPart(std::int64_t begin) const {
    return result_ + (begin - parts_.Begin(layout_.rank()));
  }

  char* Place(std::int64_t chunk, int owner) const {
    return layout_.Place(first_ + static_cast<std::uint64_t>(chunk), owner, owner);
  }

  const BucketReduction& bucket_;
  const BucketLayout& layout_;
  const std::uint64_t first_;
  const ChunkedParts parts_;
  const char* const result_;
};

}  // namespace horovod_opt
