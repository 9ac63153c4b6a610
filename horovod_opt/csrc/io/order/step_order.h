// Windowed shuffle: which samples come in which step, what horovod_opt/io/order says of one
// position at a time, for many steps at once. Places, shards, ordinals and windows are explained
// there.
#pragma once

#include <cstdint>
#include <vector>

#include "horovod_opt_io_abi.h"
#include "horovod_opt/csrc/io/order/dealing.h"
#include "horovod_opt/csrc/io/order/permutation.h"

namespace horovod_opt {
namespace io {

// Steps of `positions` each, the first one's from `begin` on, all of which the epoch has.
struct StepRange {
  std::int64_t begin, positions, steps;
};

// Of an epoch; for one thread.
class StepOrder {
 public:
  // The arrays of `order` must stay. Throws std::invalid_argument.
  explicit StepOrder(const HioOrder& order);

  // What a rank is dealt in each step, in its turns; where the order deals nothing, its share, by
  // place. Both arrays get hand.samples() x steps numbers.
  void Take(const StepRange& range, const Hand& hand, std::int64_t* positions,
            std::int64_t* samples);

  // Of each step, sorted by place, those from number `first` to `end` - 1. For each chunk, by its
  // ordinal, that they are of: lowers `firsts` and raises `lasts` to
  // the steps, which count from `number` on. Adds to `counts`, in the place of the first chunk of
  // each window, how many of the window's samples they are.
  void Mark(const StepRange& range, std::int64_t first, std::int64_t end, std::int64_t number,
            std::int64_t* firsts, std::int64_t* lasts, std::int64_t* counts);

  // Which of the samples of some windows they are: `ordinals`, ascending, are those of the windows'
  // first chunks. Sets to 1 what they are of mask[begins[i]] and on, where the samples of window i
  // come chunk after chunk, each in the data's order.
  void Find(const StepRange& range, std::int64_t first, std::int64_t end,
            const std::vector<std::int64_t>& ordinals, const std::int64_t* begins,
            std::uint8_t* flags);

 private:
  // The window of a shard that was last asked for: places from `begin` on, before `end`, of chunks
  // whose ordinals are from `first_ordinal` on.
  struct Window {
    std::int64_t begin = 0, end = 0, first_ordinal = 0;
    Permutation permutation;
    std::vector<std::int64_t> chunks;  // by ordinal; -1: not asked for yet
    std::int64_t unmarked = 0;         // chunks that MarkStep() may still find something for
  };

  // Samples of a shard that follow each other: each of `places` from `place` on, and each width-th
  // position from `position` on. The first one is number `number` of its step.
  struct Run {
    std::int64_t shard, place, places, position, width, number;
  };

  void Check(const StepRange& range, std::int64_t first, std::int64_t end) const;
  void Check(const StepRange& range, const Hand& hand) const;
  template <class Visit>
  void EachRun(std::int64_t begin, std::int64_t positions, std::int64_t first, std::int64_t end,
               const Visit& visit) const;
  template <class Visit>
  void EachWindow(const Run& run, const Visit& visit);
  template <class IsBetter>
  void MarkRun(const Run& run, std::int64_t number, std::int64_t* marks, std::int64_t* counts,
               const IsBetter& is_better);
  std::int64_t FirstPlace(std::int64_t ordinal) const;
  std::int64_t OrdinalAt(std::int64_t place) const;
  // Makes it the window that the place is in. Whether it was another one before.
  bool Open(Window& window, std::int64_t shard, std::int64_t place);
  std::int64_t Permuted(const Window& window, std::int64_t place) const;
  std::int64_t SampleAt(Window& window, std::int64_t place) const;

  const HioOrder& order_;
  const std::int64_t behind_short_;  // the first place behind the chunk that may be short
  const Permutation chunks_;
  std::vector<Window> windows_;  // by shard
};

}  // namespace io
}  // namespace horovod_opt
