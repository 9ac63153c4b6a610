// Allgather, broadcast and alltoall in shared memory, collectives that only copy: every rank shows
// what it has, a chunk at a time, and whoever wants it copies it out after the barrier. One barrier
// a chunk; each byte is copied in once and out by every reader.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/bucket_layout.h"

namespace horovod_opt {

class ChunkedCopy {
 public:
  // Uses the copies of the layout from `first` on. `data`: this rank's `bytes` bytes.
  ChunkedCopy(const BucketLayout& layout, std::uint64_t first, const void* data, std::int64_t bytes)
      : layout_(layout), first_(first), data_(static_cast<const char*>(data)), bytes_(bytes) {}

  // That `bytes` need; at least one.
  std::int64_t Chunks(std::int64_t bytes) const {
    return std::max<std::int64_t>(1, (bytes + Room() - 1) / Room());
  }

  void CopyIn(std::int64_t chunk) {
    const Range range = Of(chunk, bytes_);
    if (range.bytes == 0) return;
    std::memcpy(Place(chunk, layout_.rank()), data_ + range.begin,
                static_cast<std::size_t>(range.bytes));
  }

  // After a barrier: this chunk of what `rank` has, which is `bytes` bytes, to its place in `to`.
  void CopyOut(std::int64_t chunk, int rank, std::int64_t bytes, void* to) const {
    const Range range = Of(chunk, bytes);
    if (range.bytes == 0) return;
    std::memcpy(static_cast<char*>(to) + range.begin, Place(chunk, rank),
                static_cast<std::size_t>(range.bytes));
  }

 private:
  struct Range {
    std::int64_t begin, bytes;
  };

  std::int64_t Room() const { return layout_.slice() * layout_.ranks(); }

  Range Of(std::int64_t chunk, std::int64_t bytes) const {
    const std::int64_t begin = std::min(chunk * Room(), bytes);
    return {begin, std::min(Room(), bytes - begin)};
  }

  char* Place(std::int64_t chunk, int rank) const {
    return layout_.Place(first_ + static_cast<std::uint64_t>(chunk), rank, 0);
  }

  const BucketLayout& layout_;
  const std::uint64_t first_;
  const char* const data_;
  const std::int64_t bytes_;
};

// A rank of the group is given another number of bytes than it expects.
class PieceDiffers : public std::logic_error {
 public:
  PieceDiffers(int from, std::int64_t given, int to, std::int64_t wanted)
      : std::logic_error(
            Text("rank " + std::to_string(from), given, "rank " + std::to_string(to), wanted)),
        from(from),
        to(to),
        given(given),
        wanted(wanted) {}

  static std::string Text(const std::string& from, std::int64_t given, const std::string& to,
                          std::int64_t wanted) {
    return from + " has " + std::to_string(given) + " bytes for " + to + ", which expects " +
           std::to_string(wanted);
  }

  const int from, to;
  const std::int64_t given, wanted;
};

// What each rank has for each other one. A slice of a row is for one rank: first how long this piece
// is, and the one that comes the other way.
class PieceCopy {
 public:
  // What this rank has for another one, and wants of it. By rank.
  struct Piece {
    const char* from = nullptr;
    std::int64_t from_bytes = 0;
    char* to = nullptr;
    std::int64_t to_bytes = 0;
  };
  using Pieces = std::vector<Piece>;

  PieceCopy(const BucketLayout& layout, std::uint64_t first, const Pieces& pieces)
      : layout_(layout), first_(first), pieces_(pieces) {}

  std::int64_t Longest() const {
    const auto less = [](const Piece& a, const Piece& b) { return a.from_bytes < b.from_bytes; };
    return std::max_element(pieces_.begin(), pieces_.end(), less)->from_bytes;
  }

  // That pieces of `longest` bytes need.
  std::int64_t Chunks(std::int64_t longest) const {
    return std::max<std::int64_t>(1, (longest + Room() - 1) / Room());
  }

  void CopyIn(std::int64_t chunk) {
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      if (chunk == 0)
        SizesOf(layout_.rank(), rank) = {pieces_[rank].from_bytes, pieces_[rank].to_bytes};
      if (rank == layout_.rank()) continue;
      Copy(chunk, pieces_[rank].from_bytes, [&](std::int64_t begin, std::size_t bytes) {
        std::memcpy(Data(chunk, layout_.rank(), rank), pieces_[rank].from + begin, bytes);
      });
    }
  }

  // After the first barrier. Throws PieceDiffers on all ranks alike.
  void Compare() const {
    for (int from = 0; from < layout_.ranks(); ++from) {
      for (int to = 0; to < layout_.ranks(); ++to) {
        const std::int64_t given = SizesOf(from, to).given, wanted = SizesOf(to, from).wanted;
        if (given == wanted) continue;
        throw PieceDiffers(from, given, to, wanted);
      }
    }
  }

  void CopyOut(std::int64_t chunk) const {
    const int own = layout_.rank();
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      if (rank == own) {
        const Piece& kept = pieces_[own];
        if (chunk == 0 && kept.to_bytes > 0) {
          std::memmove(kept.to, kept.from, static_cast<std::size_t>(kept.to_bytes));
        }
        continue;
      }
      Copy(chunk, pieces_[rank].to_bytes, [&](std::int64_t begin, std::size_t bytes) {
        std::memcpy(pieces_[rank].to + begin, Data(chunk, rank, own), bytes);
      });
    }
  }

 private:
  struct alignas(64) Sizes {
    std::int64_t given, wanted;
  };

  std::int64_t Room() const { return layout_.slice() - static_cast<std::int64_t>(sizeof(Sizes)); }

  Sizes& SizesOf(int from, int to) const {
    return *reinterpret_cast<Sizes*>(layout_.Place(first_, from, to));
  }

  char* Data(std::int64_t chunk, int from, int to) const {
    return layout_.Place(first_ + static_cast<std::uint64_t>(chunk), from, to) + sizeof(Sizes);
  }

  template <class Use>
  void Copy(std::int64_t chunk, std::int64_t bytes, const Use& use) const {
    const std::int64_t begin = chunk * Room();
    if (begin < bytes) use(begin, static_cast<std::size_t>(std::min(Room(), bytes - begin)));
  }

  const BucketLayout& layout_;
  const std::uint64_t first_;
  const Pieces& pieces_;
};

}  // namespace horovod_opt
