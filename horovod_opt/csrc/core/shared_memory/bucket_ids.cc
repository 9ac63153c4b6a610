#include "horovod_opt/csrc/core/shared_memory/bucket_ids.h"

namespace horovod_opt {

BucketIds::BucketIds(int capacity) : places_(capacity) {
  for (int bucket_id = 0; bucket_id < capacity; ++bucket_id) free_.insert(free_.end(), bucket_id);
}

std::vector<int> BucketIds::Allocate(const std::vector<std::int64_t>& place_bytes) {
  std::vector<int> bucket_ids;
  if (free_.size() < place_bytes.size()) return bucket_ids;
  for (std::int64_t bytes : place_bytes) {
    const int bucket_id = *free_.begin();
    free_.erase(free_.begin());
    bucket_ids.push_back(bucket_id);
    places_[bucket_id] = bytes == 0 ? Place() : NewPlace(bytes);
  }
  return bucket_ids;
}

BucketIds::Place BucketIds::NewPlace(std::int64_t bytes) {
  const auto number = static_cast<int>(numbers_.Allocate(1));
  if (number < 0) return {};
  const std::int64_t offset = memory_.Allocate(bytes);
  if (offset < 0) {
    numbers_.Free(number, 1);
    return {};
  }
  return {offset, bytes, number, ++owners_};
}

void BucketIds::Free(int bucket_id) {
  free_.insert(bucket_id);
  const Place& place = places_[bucket_id];
  if (!HasPlace(bucket_id)) return;
  memory_.Free(place.offset, place.bytes);
  numbers_.Free(place.number, 1);
}

Turn BucketIds::TurnOf(int bucket_id, std::uint32_t count) const {
  const Place& place = places_[bucket_id];
  return {bucket_id, place.number, place.offset, place.owner, count};
}

}  // namespace horovod_opt
