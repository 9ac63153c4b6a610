#include "horovod_opt/csrc/core/shared_memory/bucket_places.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/base/rounding.h"

namespace horovod_opt {
namespace {

constexpr int kHalves = 2;

std::uint64_t Number(const Turn& turn, std::uint32_t count) {
  return std::uint64_t{turn.owner} << 32 | count;
}

std::uint64_t Number(const Turn& turn) { return Number(turn, turn.count); }

}  // namespace

// Of one row; apart from the rows, whose bytes might look like a number.
struct alignas(kCacheLine) BucketPlaces::Header {
  std::atomic<std::uint64_t> contributed, read;  // numbers of turns
  std::uint64_t tag;
};

std::size_t BucketPlaces::Bytes(int ranks) {
  return sizeof(EventCount) + kMemory +
         sizeof(Header) * kHalves * static_cast<std::size_t>(ranks * Turn::kPlaces);
}

std::int64_t BucketPlaces::PlaceBytes(std::int64_t bytes, int ranks) {
  return bytes * ranks <= kMost ? kHalves * ranks * WholeLines(bytes) : 0;
}

BucketPlaces::BucketPlaces(void* memory, int rank, int ranks)
    : changed_(static_cast<EventCount*>(memory)),
      headers_(reinterpret_cast<Header*>(changed_ + 1)),
      places_(reinterpret_cast<char*>(headers_ + kHalves * ranks * Turn::kPlaces)),
      rank_(rank),
      ranks_(ranks) {}

BucketPlaces::Header& BucketPlaces::HeaderOf(const Turn& turn, int rank) const {
  return headers_[(turn.number * kHalves + turn.count % kHalves) * ranks_ + rank];
}

char* BucketPlaces::Row(const Turn& turn, std::int64_t bytes, int rank) const {
  return places_ + turn.place + (turn.count % kHalves * ranks_ + rank) * WholeLines(bytes);
}

bool BucketPlaces::AllHaveRead(const Turn& turn) const {
  if (turn.count <= kHalves) return true;
  const std::uint64_t before = Number(turn, turn.count - kHalves);
  for (int rank = 0; rank < ranks_; ++rank) {
    if (HeaderOf(turn, rank).read.load() < before) return false;
  }
  return true;
}

bool BucketPlaces::Contribute(const Turn& turn, const BucketReduction& bucket, std::uint64_t tag) {
  if (!AllHaveRead(turn)) return false;
  bucket.Contribute(0, bucket.Bytes(), Row(turn, bucket.Bytes(), rank_));
  Header& own = HeaderOf(turn, rank_);
  own.tag = tag;
  own.contributed.store(Number(turn));
  changed_->Notify();
  return true;
}

bool BucketPlaces::HasContributed(const Turn& turn) const {
  return HeaderOf(turn, rank_).contributed.load() == Number(turn);
}

bool BucketPlaces::AllHaveContributed(const Turn& turn) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (HeaderOf(turn, rank).contributed.load() != Number(turn)) return false;
  }
  return true;
}

bool BucketPlaces::AwaitReaders(const Turn& turn, const std::atomic<bool>& stop,
                                WaitCounts& counts) {
  return changed_->Await([&] { return AllHaveRead(turn); }, stop, counts,
                         EventCount::kLongestSleep);
}

bool BucketPlaces::AwaitAll(const Turn& turn, const std::atomic<bool>& stop, WaitCounts& counts) {
  return changed_->Await([&] { return AllHaveContributed(turn); }, stop, counts,
                         EventCount::kLongestSleep);
}

void BucketPlaces::Reduce(const Turn& turn, const BucketReduction& bucket, std::uint64_t tag) {
  std::vector<const char*> rows;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::uint64_t rank_tag = HeaderOf(turn, rank).tag;
    if (rank_tag != tag) {
      throw std::logic_error("a rank has another bucket: tags " + std::to_string(tag) + " and " +
                             std::to_string(rank_tag));
    }
    rows.push_back(Row(turn, bucket.Bytes(), rank));
  }
  alignas(kCacheLine) char block[BucketReduction::kBlock];
  bucket.AddUp(rows, block);
  HeaderOf(turn, rank_).read.store(Number(turn));
  changed_->Notify();
}

}  // namespace horovod_opt
