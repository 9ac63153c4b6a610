// Allocation of bucket IDs, and of places for the buckets that need one
// (shared_memory/bucket_places.h). Ranks that ask for the same in the same order get the same.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "horovod_opt/csrc/core/shared_memory/bucket_places.h"
#include "horovod_opt/csrc/core/shared_memory/place_allocator.h"

namespace horovod_opt {

class BucketIds {
 public:
  explicit BucketIds(int capacity);

  // Memory for places from now on.
  void UseMemory(std::int64_t bytes) { memory_ = PlaceAllocator(bytes); }

  // As many as `place_bytes`, which says how many bytes each needs, 0: none; what finds no room has
  // no place. No IDs if fewer are free.
  std::vector<int> Allocate(const std::vector<std::int64_t>& place_bytes);
  void Free(int bucket_id);

  int capacity() const { return static_cast<int>(places_.size()); }
  int available() const { return static_cast<int>(free_.size()); }
  bool HasPlace(int bucket_id) const { return places_[bucket_id].offset != Turn::kNoPlace; }
  // The bucket is reduced for the `count`-th time since it was allocated.
  Turn TurnOf(int bucket_id, std::uint32_t count) const;

 private:
  struct Place {
    std::int64_t offset = Turn::kNoPlace, bytes = 0;
    int number = 0;
    std::uint32_t owner = 0;
  };

  Place NewPlace(std::int64_t bytes);  // none if there is no room

  std::set<int> free_;
  std::vector<Place> places_;  // by bucket ID
  PlaceAllocator memory_{0};
  PlaceAllocator numbers_{Turn::kPlaces};
  std::uint32_t owners_ = 0;
};

}  // namespace horovod_opt
