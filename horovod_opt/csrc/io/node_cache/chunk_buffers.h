// Which slots of the ring are free, and how much memory all of them use. The leader's alone.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace horovod_opt {
namespace io {

// Each slot has addresses for the largest chunk, but only the pages that were ever written take
// memory, and they stay when the slot is free: whoever takes it next has no page faults. So a slot
// that fits is preferred; and what all slots use is never more than `memory`, plus less than a page
// for each live chunk: before it would be, free slots and what others have beyond their chunks are
// punched.
class Slots {
 public:
  using Punch = std::function<void(std::int64_t slot, std::int64_t begin, std::int64_t end)>;

  Slots(std::int64_t count, std::int64_t memory, Punch punch);

  // A slot for so many bytes, or -1: no slot is free, or live chunks leave too little memory.
  std::int64_t Take(std::int64_t bytes);
  void Free(std::int64_t slot);

  std::int64_t live_bytes() const { return live_; }
  std::int64_t used_bytes() const { return used_; }  // whole pages, of live and of free slots

 private:
  struct Slot {
    std::int64_t live = -1;  // bytes of its chunk; negative: free
    std::int64_t used = 0;
  };

  std::int64_t Choose(std::int64_t pages) const;
  std::int64_t Spare(const Slot& slot) const;
  std::int64_t MostSpare() const;
  void Shrink(std::int64_t slot);

  std::vector<Slot> slots_;
  const std::int64_t memory_;
  const Punch punch_;
  std::int64_t live_ = 0;
  std::int64_t used_ = 0;
};

}  // namespace io
}  // namespace horovod_opt
