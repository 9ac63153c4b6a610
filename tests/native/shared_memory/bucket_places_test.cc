#include "horovod_opt/csrc/core/shared_memory/bucket_places.h"

#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {
namespace bucket_places_test {

constexpr int kRanks = 3, kNumbers = 5;
constexpr std::int64_t kBytes = kNumbers * 4;
const Arithmetic kInts{4, &elementwise::Reduce<std::int32_t, elementwise::Sum>, nullptr};

class BucketPlacesTest : public testing::Test {
 protected:
  BucketPlacesTest() {
    for (int rank = 0; rank < kRanks; ++rank) {
      places_.emplace_back(memory_.data(), rank, kRanks);
      values_.emplace_back(kNumbers);
      sums_.emplace_back(kNumbers, -1);
    }
  }

  // Of rank `rank`: the numbers `first`, `first` + 1, ...
  BucketReduction Bucket(int rank, int first) {
    std::iota(values_[rank].begin(), values_[rank].end(), first);
    return {{{values_[rank].data(), sums_[rank].data(), kBytes}}, kInts, 1, 1};
  }

  bool Contribute(int rank, const Turn& turn, int first, std::uint64_t tag = 1) {
    return places_[rank].Contribute(turn, Bucket(rank, first), tag);
  }

  void Reduce(int rank, const Turn& turn, std::uint64_t tag = 1) {
    places_[rank].Reduce(turn, Bucket(rank, 0), tag);
  }

  static Turn TurnOf(std::uint32_t count, std::uint32_t owner = 1) {
    return {9, 2, 128, owner, count};
  }

  Zeros memory_{BucketPlaces::Bytes(kRanks)};
  std::vector<BucketPlaces> places_;
  std::vector<std::vector<std::int32_t>> values_, sums_;
  const std::atomic<bool> go_on_{false}, stop_{true};
  WaitCounts waits_;
};

TEST_F(BucketPlacesTest, WhoeverComesAddsUpWhatAllHaveContributed) {
  const Turn turn = TurnOf(1);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_FALSE(places_[0].AllHaveContributed(turn));
    EXPECT_FALSE(places_[rank].HasContributed(turn));
    EXPECT_TRUE(Contribute(rank, turn, 10 * rank));
    EXPECT_TRUE(places_[rank].HasContributed(turn));
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_TRUE(places_[rank].AllHaveContributed(turn));
    Reduce(rank, turn);
    EXPECT_EQ(sums_[rank], (std::vector<std::int32_t>{30, 33, 36, 39, 42}));
  }
}

// Invariant 1: rank 2 has not read turn 1 when rank 0 could write turn 3 over it.
TEST_F(BucketPlacesTest, ARowThatIsStillReadIsNotOverwritten) {
  for (std::uint32_t count : {1u, 2u}) {
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(Contribute(rank, TurnOf(count), rank));
  }
  for (int rank : {0, 1}) Reduce(rank, TurnOf(1));
  EXPECT_FALSE(Contribute(0, TurnOf(3), 1000));
  EXPECT_FALSE(places_[0].AwaitReaders(TurnOf(3), stop_, waits_));
  Reduce(2, TurnOf(1));
  EXPECT_EQ(sums_[2][0], 0 + 1 + 2);
  EXPECT_TRUE(places_[0].AwaitReaders(TurnOf(3), stop_, waits_));
  EXPECT_TRUE(Contribute(0, TurnOf(3), 1000));
}

// Invariant 3.
TEST_F(BucketPlacesTest, WaitsForARankThatContributesLater) {
  const Turn turn = TurnOf(1);
  for (int rank : {0, 1}) EXPECT_TRUE(Contribute(rank, turn, 1));
  EXPECT_FALSE(places_[0].AwaitAll(turn, stop_, waits_));
  bool complete = false;
  Sleeper reader([&] {
    WaitCounts waits;
    complete = places_[0].AwaitAll(turn, go_on_, waits);
  });
  reader.AwaitSleep();
  EXPECT_TRUE(Contribute(2, turn, 1));
  reader.Join();
  EXPECT_TRUE(complete);
}

TEST_F(BucketPlacesTest, WaitsForAReaderThatComesLater) {
  for (std::uint32_t count : {1u, 2u}) {
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(Contribute(rank, TurnOf(count), rank));
  }
  for (int rank : {0, 1}) Reduce(rank, TurnOf(1));
  bool free = false;
  Sleeper writer([&] {
    WaitCounts waits;
    free = places_[0].AwaitReaders(TurnOf(3), go_on_, waits);
  });
  writer.AwaitSleep();
  Reduce(2, TurnOf(1));
  writer.Join();
  EXPECT_TRUE(free);
}

TEST_F(BucketPlacesTest, RanksThatMeanDifferentBucketsAllGetAnError) {
  const Turn turn = TurnOf(1);
  for (int rank = 0; rank < kRanks; ++rank) EXPECT_TRUE(Contribute(rank, turn, 1, rank == 1));
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_THROW(Reduce(rank, turn, rank == 1), std::logic_error);
    EXPECT_EQ(sums_[rank], std::vector<std::int32_t>(kNumbers, -1));
  }
}

// What a former owner has left is neither a contribution nor something that has to be read.
TEST_F(BucketPlacesTest, ANewOwnerBeginsAnew) {
  for (std::uint32_t count : {1u, 2u, 3u}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(Contribute(rank, TurnOf(count), 1));
    }
    if (count == 3) break;  // taken back: never read
    for (int rank = 0; rank < kRanks; ++rank) Reduce(rank, TurnOf(count));
  }
  for (std::uint32_t count : {1u, 2u, 3u}) {
    const Turn turn = TurnOf(count, 2);
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_FALSE(places_[rank].HasContributed(turn));
      ASSERT_TRUE(Contribute(rank, turn, 1));
    }
    for (int rank = 0; rank < kRanks; ++rank) Reduce(rank, turn);
  }
}

TEST_F(BucketPlacesTest, TwoPlacesDoNotTouch) {
  const std::int64_t bytes = BucketPlaces::PlaceBytes(kBytes, kRanks);
  const Turn first{0, 0, 0, 1, 1}, second{1, 1, bytes, 2, 1};
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::uint32_t count : {1u, 2u}) {
      ASSERT_TRUE(Contribute(rank, {0, 0, 0, 1, count}, 1));
      ASSERT_TRUE(Contribute(rank, {1, 1, bytes, 2, count}, 100));
    }
  }
  Reduce(0, first);
  EXPECT_EQ(sums_[0][0], kRanks);
  Reduce(0, second);
  EXPECT_EQ(sums_[0][0], kRanks * 100);
}

TEST(BucketPlaces, WhatIsTooLargeHasNoPlace) {
  EXPECT_GT(BucketPlaces::PlaceBytes(BucketPlaces::kMost / 4, 4), 2 * BucketPlaces::kMost - 1);
  EXPECT_EQ(BucketPlaces::PlaceBytes(BucketPlaces::kMost / 4 + 1, 4), 0);
  EXPECT_EQ(BucketPlaces::PlaceBytes(BucketPlaces::kMost + 1, 1), 0);
}

// Ranks at any pace; ThreadSanitizer looks on.
TEST(BucketPlacesThreads, EveryTurnHasItsSum) {
  Zeros memory(BucketPlaces::Bytes(kRanks));
  const std::atomic<bool> never{false};
  constexpr std::uint32_t kTurns = 3000;
  OnRanks(kRanks, [&](int rank) {
    BucketPlaces places(memory.data(), rank, kRanks);
    std::minstd_rand random(static_cast<unsigned>(rank) + 1);
    WaitCounts waits;
    for (std::uint32_t count = 1; count <= kTurns; ++count) {
      const Turn turn{1, 1, 0, 1, count};
      std::vector<std::int32_t> values(kNumbers), sums(kNumbers);
      for (int i = 0; i < kNumbers; ++i) values[i] = static_cast<int>(count) + i + rank;
      const BucketReduction bucket({{values.data(), sums.data(), kBytes}}, kInts, 1, 1);
      if (random() % 64 == 0) std::this_thread::yield();
      while (!places.Contribute(turn, bucket, count)) {
        ASSERT_TRUE(places.AwaitReaders(turn, never, waits));
      }
      ASSERT_TRUE(places.AwaitAll(turn, never, waits));
      places.Reduce(turn, bucket, count);
      for (int i = 0; i < kNumbers; ++i) {
        ASSERT_EQ(sums[i], kRanks * (static_cast<int>(count) + i) + kRanks * (kRanks - 1) / 2);
      }
    }
  });
}

}  // namespace bucket_places_test
}  // namespace horovod_opt
