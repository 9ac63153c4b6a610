#include "horovod_opt/csrc/io/step_order.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace horovod_opt {
namespace io {
namespace {

PermutationKey KeyOf(const std::uint64_t* key) { return {key[0], key[1]}; }

}  // namespace

StepOrder::StepOrder(const HioOrder& order)
    : order_(order),
      behind_short_(FirstPlace(order.short_turn + 1)),
      chunks_(static_cast<std::uint64_t>(std::max<std::int64_t>(order.chunks, 1)),
              KeyOf(order.chunk_key)),
      windows_(static_cast<std::size_t>(std::max<std::int64_t>(order.shards, 0))) {
  if (order.chunks < 1 || order.chunk_samples < 1 || order.shards < 1 || order.stages < 1 ||
      order.window < 1) {
    throw std::invalid_argument("no order has " + std::to_string(order.chunks) + " chunks of " +
                                std::to_string(order.chunk_samples) + " samples in " +
                                std::to_string(order.shards) + " shards, " +
                                std::to_string(order.stages) + " stages and windows of " +
                                std::to_string(order.window));
  }
}

void StepOrder::Take(const StepRange& range, std::int64_t first, std::int64_t end,
                     std::int64_t* positions, std::int64_t* samples) {
  Check(range, first, end);
  for (std::int64_t step = 0; step < range.steps; ++step) {
    EachOf(range.begin + step * range.positions, range.positions, first, end,
           [&](std::int64_t shard, std::int64_t place, std::int64_t position) {
             *positions++ = position;
             *samples++ = SampleAt(Permuted(shard, place));
           });
  }
}

void StepOrder::Mark(const StepRange& range, std::int64_t first, std::int64_t end,
                     std::int64_t number, std::int64_t* firsts, std::int64_t* lasts) {
  Check(range, first, end);
  for (std::int64_t step = 0; step < range.steps; ++step, ++number) {
    EachOf(range.begin + step * range.positions, range.positions, first, end,
           [&](std::int64_t shard, std::int64_t place, std::int64_t) {
             const std::int64_t turn = TurnAt(Permuted(shard, place));
             firsts[turn] = std::min(firsts[turn], number);
             lasts[turn] = std::max(lasts[turn], number);
           });
  }
}

void StepOrder::Check(const StepRange& range, std::int64_t first, std::int64_t end) const {
  const std::int64_t all = order_.stage_start[order_.stages];
  if (range.begin < 0 || range.steps < 0 || range.positions < 1 || range.begin > all ||
      range.steps > (all - range.begin) / range.positions || first < 0 || end < first ||
      end > range.positions) {
    throw std::invalid_argument(
        "there are no samples " + std::to_string(first) + " to " + std::to_string(end) + " of " +
        std::to_string(range.steps) + " steps with " + std::to_string(range.positions) +
        " positions from " + std::to_string(range.begin) + " on, of " + std::to_string(all));
  }
}

// Shards follow each other in places, and in a stage a shard has each width-th position. So one shard
// after the other, and of it one stage after the other, is the order of places: nothing is sorted.
template <class Visit>
void StepOrder::EachOf(std::int64_t begin, std::int64_t positions, std::int64_t first,
                       std::int64_t end, const Visit& visit) const {
  const std::int64_t* const starts = order_.stage_start;
  const std::int64_t stages = order_.stages;
  const std::int64_t low = std::upper_bound(starts, starts + stages, begin) - starts - 1;
  std::int64_t high = low + 1;
  while (high < stages && starts[high] < begin + positions) ++high;
  std::int64_t number = 0;
  for (std::int64_t shard = 0; shard < order_.shards && number < end; ++shard) {
    for (std::int64_t stage = low; stage < high; ++stage) {
      const std::int64_t turn = order_.stage_turn[stage * order_.shards + shard];
      if (turn < 0) continue;
      const std::int64_t width = order_.stage_width[stage];
      const auto rows_before = [&](std::int64_t position) {
        const std::int64_t behind = position - starts[stage];
        return behind / width + (turn < behind % width);
      };
      const std::int64_t to = rows_before(std::min(begin + positions, starts[stage + 1]));
      const std::int64_t from = rows_before(std::max(begin, starts[stage]));
      const std::int64_t skipped = std::clamp<std::int64_t>(first - number, 0, to - from);
      const std::int64_t wanted = std::clamp<std::int64_t>(end - number, 0, to - from);
      for (std::int64_t row = from + skipped; row < from + wanted; ++row) {
        visit(shard, order_.shard_place[shard] + order_.stage_row[stage] + row,
              starts[stage] + row * width + turn);
      }
      number += to - from;
    }
  }
}

std::int64_t StepOrder::FirstPlace(std::int64_t turn) const {
  return turn * order_.chunk_samples - (turn > order_.short_turn ? order_.missing : 0);
}

std::int64_t StepOrder::TurnAt(std::int64_t place) const {
  return (place + (place >= behind_short_ ? order_.missing : 0)) / order_.chunk_samples;
}

std::int64_t StepOrder::Permuted(std::int64_t shard, std::int64_t place) {
  if (!order_.is_shuffled) return place;
  Window& window = windows_[static_cast<std::size_t>(shard)];
  if (place < window.begin || place >= window.end) {
    const std::int64_t first = order_.shard_chunk[shard];
    const std::int64_t head = order_.first_window[shard];
    const std::int64_t behind = TurnAt(place) - first - head;
    const std::int64_t begin =
        behind < 0 ? first : first + head + behind / order_.window * order_.window;
    const std::int64_t chunks = std::min(behind < 0 ? head : order_.window,
                                         order_.shard_chunk[shard + 1] - begin);
    window.begin = FirstPlace(begin);
    window.end = FirstPlace(begin + chunks);
    window.permutation =
        Permutation(static_cast<std::uint64_t>(window.end - window.begin),
                    KeyFor(KeyOf(order_.window_key), static_cast<std::uint64_t>(begin)));
  }
  return window.begin + static_cast<std::int64_t>(window.permutation.Forward(
                            static_cast<std::uint64_t>(place - window.begin)));
}

std::int64_t StepOrder::SampleAt(std::int64_t place) const {
  if (!order_.is_shuffled) return place;
  const std::int64_t turn = TurnAt(place);
  const auto chunk =
      static_cast<std::int64_t>(chunks_.Forward(static_cast<std::uint64_t>(turn)));
  return chunk * order_.chunk_samples + place - FirstPlace(turn);
}

}  // namespace io
}  // namespace horovod_opt
