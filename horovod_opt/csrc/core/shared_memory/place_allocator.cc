#include "horovod_opt/csrc/core/shared_memory/place_allocator.h"

#include <iterator>

namespace horovod_opt {

std::int64_t PlaceAllocator::Allocate(std::int64_t bytes) {
  for (const auto [place, room] : free_) {
    if (room < bytes) continue;
    free_.erase(place);
    if (room > bytes) free_[place + bytes] = room - bytes;
    return place;
  }
  return -1;
}

void PlaceAllocator::Free(std::int64_t place, std::int64_t bytes) {
  auto own = free_.emplace(place, bytes).first;
  const auto next = std::next(own);
  if (next != free_.end() && place + bytes == next->first) {
    own->second += next->second;
    free_.erase(next);
  }
  if (own == free_.begin()) return;
  const auto before = std::prev(own);
  if (before->first + before->second != place) return;
  before->second += own->second;
  free_.erase(own);
}

}  // namespace horovod_opt
