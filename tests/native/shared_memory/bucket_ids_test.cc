#include "horovod_opt/csrc/core/shared_memory/bucket_ids.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace horovod_opt {
namespace bucket_ids_test {

TEST(PlaceAllocator, IsFirstFit) {
  PlaceAllocator memory(100);
  EXPECT_EQ(memory.Allocate(40), 0);
  EXPECT_EQ(memory.Allocate(40), 40);
  EXPECT_EQ(memory.Allocate(40), -1);
  EXPECT_EQ(memory.Allocate(20), 80);
  memory.Free(0, 40);
  EXPECT_EQ(memory.Allocate(41), -1);
  EXPECT_EQ(memory.Allocate(10), 0);
  EXPECT_EQ(memory.Allocate(30), 10);
  EXPECT_EQ(memory.Allocate(1), -1);
}

TEST(PlaceAllocator, JoinsWhatIsFree) {
  const std::vector<std::vector<int>> orders{{0, 1, 2}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}, {2, 1, 0}};
  for (const auto& order : orders) {
    PlaceAllocator memory(90);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(memory.Allocate(30), 30 * i);
    for (int i : order) memory.Free(30 * i, 30);
    EXPECT_EQ(memory.Allocate(90), 0);
  }
}

TEST(PlaceAllocator, NoTwoPlacesOverlap) {
  PlaceAllocator memory(1000);
  std::minstd_rand random(1);
  std::map<std::int64_t, std::int64_t> used;
  for (int i = 0; i < 5000; ++i) {
    if (random() % 2 == 0 && !used.empty()) {
      auto place = used.begin();
      std::advance(place, random() % used.size());
      memory.Free(place->first, place->second);
      used.erase(place);
      continue;
    }
    const std::int64_t bytes = 1 + static_cast<std::int64_t>(random() % 200);
    const std::int64_t place = memory.Allocate(bytes);
    if (place < 0) continue;
    ASSERT_LE(place + bytes, 1000);
    const auto next = used.lower_bound(place);
    ASSERT_TRUE(next == used.end() || place + bytes <= next->first);
    ASSERT_TRUE(next == used.begin() || std::prev(next)->first + std::prev(next)->second <= place);
    used[place] = bytes;
  }
}

TEST(BucketIds, TheSmallestThatAreFree) {
  BucketIds ids(4);
  EXPECT_EQ(ids.Allocate({0, 0, 0}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(ids.Allocate({0, 0}), std::vector<int>{});
  EXPECT_EQ(ids.available(), 1);
  ids.Free(1);
  EXPECT_EQ(ids.Allocate({0, 0}), (std::vector<int>{1, 3}));
}

TEST(BucketIds, OnlyWhatNeedsAPlaceAndFindsRoomHasOne) {
  BucketIds ids(8);
  EXPECT_EQ(ids.Allocate({10}), std::vector<int>{0});
  EXPECT_FALSE(ids.HasPlace(0)) << "there is no memory";
  ids.UseMemory(100);
  EXPECT_EQ(ids.Allocate({60, 0, 60, 40}), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_TRUE(ids.HasPlace(1));
  EXPECT_FALSE(ids.HasPlace(2));
  EXPECT_FALSE(ids.HasPlace(3)) << "40 of 100 bytes are left";
  EXPECT_TRUE(ids.HasPlace(4));
  EXPECT_EQ(ids.TurnOf(4, 7).place, 60);
  EXPECT_EQ(ids.TurnOf(4, 7).count, 7u);
}

TEST(BucketIds, ThereAreOnlySoManyPlaces) {
  BucketIds ids(Turn::kPlaces + 2);
  ids.UseMemory(2 * Turn::kPlaces);
  ids.Allocate(std::vector<std::int64_t>(Turn::kPlaces + 1, 1));
  EXPECT_TRUE(ids.HasPlace(Turn::kPlaces - 1));
  EXPECT_FALSE(ids.HasPlace(Turn::kPlaces));
  ids.Free(3);
  ids.Allocate({1});
  EXPECT_TRUE(ids.HasPlace(3));
  EXPECT_EQ(ids.TurnOf(3, 1).number, 3);
}

TEST(BucketIds, EveryOwnerHasAnotherNumber) {
  BucketIds ids(2);
  ids.UseMemory(100);
  ids.Allocate({50});
  const Turn before = ids.TurnOf(0, 1);
  ids.Free(0);
  ids.Allocate({50});
  const Turn after = ids.TurnOf(0, 1);
  EXPECT_EQ(before.place, after.place);
  EXPECT_GT(after.owner, before.owner);
}

}  // namespace bucket_ids_test
}  // namespace horovod_opt
