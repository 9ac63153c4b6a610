// Queue of many producers in shared memory: in which order the ranks of a node perform their
// buckets, without negotiation: that in which the buckets became ready on all of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "horovod_opt/csrc/core/waiting/event_count.h"

namespace horovod_opt {

// Lives at the start of Bytes() zeroed bytes of shared memory, aligned to 64. Every bucket has a
// bucket ID below kIds, the same number on every rank. (What is said here of bucket IDs is true of
// the kIds numbers that follow, too: for another use of each bucket.) A rank that has a bucket
// ready says so; the last one of the node appends the bucket ID to the ready queue. All ranks read
// the one ready queue from position 0 on and perform what they find, in that order.
//
// Invariants:
// 1. A rank calls Ready() for a bucket ID again only after it has itself read the ID's last entry.
//    An entry needs a call of every rank, so it is appended after all ranks have read the one
//    before: of each bucket ID at most one entry is not yet read everywhere. (Or few: of a bucket
//    ID that any rank appends alone, at most one from each rank.)
// 2. Hence a rank that wants position p finds it in its place: the entries from p on are of
//    different numbers, about kNumbers at most, and p's place is used again kEntries, twice as
//    many, later.
// 3. Places are reserved in order but filled in any order. An entry therefore carries its position:
//    what a place held before is not mistaken for what is still to come.
// 4. What a rank wrote before Ready() is visible to whoever got the entry from Next().
// 5. No reader sleeps through an entry. One that spins for a bucket is not woken for it; but
//    Append() stores the entry and then looks at who spins, and EndSpin() says that nobody does
//    and then looks at the size. All are sequentially consistent, so one of them sees the other.
class ReadyQueue {
 public:
  static constexpr int kIds = 4096;
  // The last one is of no bucket: it stands for a round of negotiation, and any rank of a group
  // appends it alone.
  static constexpr int kRoundId = kIds - 1;
  static constexpr int kBuckets = kRoundId;  // the bucket IDs before it
  static constexpr int kNumbers = 2 * kIds;
  static constexpr std::uint64_t kEntries = 2 * kNumbers;

  static constexpr int kNobody = -1;

  static std::size_t Bytes();

  // The bucket of `bucket_id` is ready on one more of `ranks` ranks. Any thread of any rank, once
  // per rank and iteration. Costs one atomic addition, and for the last rank a second one, a store,
  // and a system call if a rank sleeps in Next(). Throws std::out_of_range unless 0 <= bucket ID <
  // kNumbers.
  void Ready(int bucket_id, int ranks) {
    if (Count(bucket_id, ranks)) Append(bucket_id);
  }
  // The two halves of it: true if this rank is the last one, which then appends. `all_but`: a
  // reader of the queue that has no need to be woken, as the caller performs the bucket for it.
  bool Count(int bucket_id, int ranks);
  void Append(int bucket_id, int all_but = kNobody);

  // From before its Count() on, a thread of the rank spins for this bucket: `reader` need not be
  // woken for it. One bucket at a time. False: this reader is always woken.
  bool Spin(int bucket_id, int reader);
  // If the rank spins for this bucket, it does not any more. `performed`: another thread has
  // performed the bucket, so the reader need not know of it; else it is woken if it has not come to
  // the end of the queue, which is at `position`.
  void EndSpin(int bucket_id, int reader, bool performed, std::uint64_t position);

  // Blocks until the ready queue has an entry at `position` and returns its bucket ID. False once
  // `stop` is set and the entry is not there; whoever sets `stop` then calls Kick(). Throws
  // std::logic_error if the entry is overwritten, that is, if invariant 1 was broken. `reader`:
  // the number of the rank in its group.
  bool Next(std::uint64_t position, int& bucket_id, const std::atomic<bool>& stop,
            WaitCounts& counts, int reader = kNobody);

  // Makes all who wait in Next() look at `stop`.
  void Kick();

  // Entries appended so far; the last of them may be about to be filled in.
  std::uint64_t Size() const;
  // How often the ranks have said that the bucket is ready, all together.
  std::uint64_t Calls(int bucket_id) const { return calls_[bucket_id].load(); }

 private:
  // The first readers have bits of their own, by which they are woken or not; all others share one.
  static constexpr int kBits = 31;
  static bool HasBit(int reader) { return 0 <= reader && reader < kBits; }
  static futex::Sleepers Bit(int reader) {
    return futex::Sleepers{1} << (HasBit(reader) ? reader : kBits);
  }
  futex::Sleepers Spinning(int bucket_id) const;

  EventCount appended_;
  alignas(64) std::atomic<std::uint64_t> size_{0};
  // By reader: the bucket that it spins for, its ID + 1; 0: none.
  alignas(64) std::atomic<int> spins_for_[kBits]{};
  // 0, or (position + 1) * kNumbers + bucket ID.
  alignas(64) std::atomic<std::uint64_t> entries_[kEntries]{};
  // Calls of Ready(). Never reset: the call that makes it a multiple of the ranks is the last.
  // Packed, since a rank's bucket IDs become ready in about their order: it finds the next one in
  // its cache.
  alignas(64) std::atomic<std::uint64_t> calls_[kNumbers]{};
};

}  // namespace horovod_opt
