// Double buffering of small buckets: they have places of their own in the memory of the group,
// where each rank puts what it contributes before it counts the bucket as complete. So whoever
// finds the bucket in the ready queue finds all contributions, too, and adds them up without a
// barrier; the last rank, even without another thread.
//
// A place has two halves, used in turn, and in each a row for every rank. A turn is one time that
// the bucket is reduced. Turns are numbered so that none has the number of an earlier one.
//
// Invariants (each with a test that fails without it):
// 1. A rank writes its row of turn n only when all ranks have read turn n - 2, which used the same
//    half: `read` says so. That is so once all have completed turn n - 1, unless a program sends a
//    tensor again before it has its sum.
// 2. `contributed` is stored after the row and loaded before it is read: the row of a rank with the
//    number of the turn is whole.
// 3. A rank that could not contribute when the bucket was complete does so later, before it reads;
//    the others wait for its number.
// 4. A place is given to another bucket only when no rank reads it any more: consensus.h, 5.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// One time that a bucket with a place of its own is reduced.
struct Turn {
  static constexpr std::int64_t kNoPlace = -1;
  static constexpr int kPlaces = 512;

  bool HasPlace() const { return place != kNoPlace; }

  int bucket_id = 0;
  int number = 0;                 // of the place, counted over those in use: below kPlaces
  std::int64_t place = kNoPlace;  // bytes from the beginning of the memory
  std::uint32_t owner = 0;        // whose bucket it is, counted over all owners of places
  std::uint32_t count = 0;        // of this owner's turns: 1, 2, 3, ...
};

// One rank's view. Any threads, but for one bucket only one thread of a rank at a time.
class BucketPlaces {
 public:
  // Up to so many bytes in all rows a bucket has a place: above, it is faster if each rank adds up
  // a part of it.
  static constexpr std::int64_t kMost = 512 << 10;
  static constexpr std::int64_t kMemory = 8 << 20;  // for the places of a group

  static std::size_t Bytes(int ranks);
  // That a bucket needs to which each of `ranks` ranks contributes `bytes` bytes; 0: it has none.
  static std::int64_t PlaceBytes(std::int64_t bytes, int ranks);

  // `memory`: Bytes() zeroed bytes, aligned to 64, the same on every rank.
  BucketPlaces(void* memory, int rank, int ranks);

  // Puts this rank's contribution into its row. False if a rank still reads what is there.
  bool Contribute(const Turn& turn, const BucketReduction& bucket, std::uint64_t tag);
  bool HasContributed(const Turn& turn) const;
  bool AllHaveContributed(const Turn& turn) const;
  // They wait until Contribute() can succeed, or all have contributed; false if `stop` was set
  // before. Noticed after Kick(), and without it within 100 ms.
  bool AwaitReaders(const Turn& turn, const std::atomic<bool>& stop, WaitCounts& counts);
  bool AwaitAll(const Turn& turn, const std::atomic<bool>& stop, WaitCounts& counts);
  // Adds up what all have contributed, in the order of ranks: see NodeCollectives::Allreduce().
  // Throws the same std::logic_error on every rank if their tags differ, before any output is
  // written.
  void Reduce(const Turn& turn, const BucketReduction& bucket, std::uint64_t tag);

  // Makes all who wait look at their `stop`.
  void Kick() { changed_->Kick(); }

 private:
  struct Header;

  Header& HeaderOf(const Turn& turn, int rank) const;
  char* Row(const Turn& turn, std::int64_t bytes, int rank) const;
  bool AllHaveRead(const Turn& turn) const;

  EventCount* const changed_;
  Header* const headers_;  // by number of the place, half, rank
  char* const places_;
  const int rank_;
  const int ranks_;
};

}  // namespace horovod_opt
