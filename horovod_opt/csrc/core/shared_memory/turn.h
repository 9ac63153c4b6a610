#pragma once

#include <cstdint>

namespace horovod_opt {

// One time that a bucket with a place of its own (bucket_places.h) is reduced.
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

}  // namespace horovod_opt
