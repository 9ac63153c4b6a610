#include "horovod_opt/csrc/io/order/step_order.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

namespace horovod_opt {
namespace io {
namespace {

PermutationKey KeyOf(const std::uint64_t* key) { return {key[0], key[1]}; }

}  // namespace

StepOrder::StepOrder(const HioOrder& order)
    : order_(order),
      behind_short_(FirstPlace(order.short_ordinal + 1)),
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

void StepOrder::Take(const StepRange& range, const Hand& hand, std::int64_t* positions,
                     std::int64_t* samples) {
  Check(range, hand);
  const std::int64_t of_step = hand.samples();
  if (of_step == 0) return;
  const auto take = [&](const Run& run, std::int64_t i, std::int64_t turn) {
    Window& window = windows_[static_cast<std::size_t>(run.shard)];
    Open(window, run.shard, run.place + i);
    positions[turn] = run.position + i * run.width;
    samples[turn] = SampleAt(window, Permuted(window, run.place + i));
  };
  Dealing dealing(KeyOf(order_.deal_key), hand);
  for (std::int64_t step = 0; step < range.steps; ++step) {
    const std::int64_t begin = range.begin + step * range.positions;
    const std::vector<Dealing::Dealt>& dealt =
        order_.is_dealt ? dealing.Deal(begin) : dealing.Share();
    auto next = dealt.begin();
    EachRun(begin, range.positions, dealt.front().first, dealt.back().first + 1,
            [&](const Run& run) {
              for (; next != dealt.end() && next->first < run.number + run.places; ++next) {
                take(run, next->first - run.number, next->second);
              }
            });
    positions += of_step;
    samples += of_step;
  }
}

// Windows hold many samples of each of few chunks. So each chunk is found in the first steps of its
// window, and, going back, in the last ones: in between nothing has to be permuted.
void StepOrder::Mark(const StepRange& range, std::int64_t first, std::int64_t end,
                     std::int64_t number, std::int64_t* firsts, std::int64_t* lasts,
                     std::int64_t* counts) {
  Check(range, first, end);
  for (std::int64_t step = 0; step < range.steps; ++step) {
    EachRun(range.begin + step * range.positions, range.positions, first, end, [&](const Run& run) {
      MarkRun(run, number + step, firsts, counts, std::less<std::int64_t>());
    });
  }
  windows_.assign(windows_.size(), Window());
  for (std::int64_t step = range.steps - 1; step >= 0; --step) {
    EachRun(range.begin + step * range.positions, range.positions, first, end, [&](const Run& run) {
      MarkRun(run, number + step, lasts, nullptr, std::greater<std::int64_t>());
    });
  }
}

void StepOrder::Find(const StepRange& range, std::int64_t first, std::int64_t end,
                     const std::vector<std::int64_t>& ordinals, const std::int64_t* begins,
                     std::uint8_t* flags) {
  Check(range, first, end);
  for (std::int64_t step = 0; step < range.steps; ++step) {
    EachRun(range.begin + step * range.positions, range.positions, first, end, [&](const Run& run) {
      EachWindow(run, [&](Window& window, std::int64_t place, std::int64_t behind, bool) {
        const auto ordinal =
            std::lower_bound(ordinals.begin(), ordinals.end(), window.first_ordinal);
        if (ordinal == ordinals.end() || *ordinal != window.first_ordinal) return;
        std::uint8_t* const of_window = flags + begins[ordinal - ordinals.begin()];
        for (; place < behind; ++place) of_window[Permuted(window, place) - window.begin] = 1;
      });
    });
  }
}

// `visit` gets the places that the run has in each window, and whether the window is a new one.
template <class Visit>
void StepOrder::EachWindow(const Run& run, const Visit& visit) {
  Window& window = windows_[static_cast<std::size_t>(run.shard)];
  const std::int64_t behind = run.place + run.places;
  for (std::int64_t place = run.place; place < behind; place = window.end) {
    const bool is_new = Open(window, run.shard, place);
    visit(window, place, std::min(behind, window.end), is_new);
  }
}

template <class IsBetter>
void StepOrder::MarkRun(const Run& run, std::int64_t number, std::int64_t* marks,
                        std::int64_t* counts, const IsBetter& is_better) {
  EachWindow(run, [&](Window& window, std::int64_t place, std::int64_t behind, bool is_new) {
    if (is_new) {
      const std::int64_t* const of_window = marks + window.first_ordinal;
      window.unmarked =
          std::count_if(of_window, of_window + window.chunks.size(),
                        [&](std::int64_t mark) { return is_better(number, mark); });
    }
    if (counts != nullptr) counts[window.first_ordinal] += behind - place;
    for (; place < behind && window.unmarked > 0; ++place) {
      std::int64_t& mark = marks[OrdinalAt(Permuted(window, place))];
      if (is_better(number, mark)) {
        mark = number;
        --window.unmarked;
      }
    }
  });
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

void StepOrder::Check(const StepRange& range, const Hand& hand) const {
  std::int64_t behind = 0;
  for (std::size_t run = 0; run < hand.firsts.size(); ++run) {
    if (hand.firsts[run] < behind) throw std::invalid_argument("the runs of a group do not ascend");
    Check(range, hand.firsts[run], hand.ends[run]);
    behind = hand.ends[run];
  }
  if (hand.index < 0 || hand.index >= hand.ranks) {
    throw std::invalid_argument("a group of " + std::to_string(hand.ranks) +
                                " ranks has no rank " + std::to_string(hand.index));
  }
}

// Shards follow each other in places, and in a stage a shard has each width-th position. So one
// shard after the other, and of it one stage after the other, is the order of places: nothing is
// sorted.
template <class Visit>
void StepOrder::EachRun(std::int64_t begin, std::int64_t positions, std::int64_t first,
                        std::int64_t end, const Visit& visit) const {
  const std::int64_t* const starts = order_.stage_start;
  const std::int64_t stages = order_.stages;
  const std::int64_t low = std::upper_bound(starts, starts + stages, begin) - starts - 1;
  std::int64_t high = low + 1;
  while (high < stages && starts[high] < begin + positions) ++high;
  std::int64_t number = 0;
  for (std::int64_t shard = 0; shard < order_.shards && number < end; ++shard) {
    for (std::int64_t stage = low; stage < high; ++stage) {
      const std::int64_t ordinal = order_.stage_ordinal[stage * order_.shards + shard];
      if (ordinal < 0) continue;
      const std::int64_t width = order_.stage_width[stage];
      const auto rows_before = [&](std::int64_t position) {
        const std::int64_t behind = position - starts[stage];
        return behind / width + (ordinal < behind % width);
      };
      const std::int64_t to = rows_before(std::min(begin + positions, starts[stage + 1]));
      const std::int64_t from = rows_before(std::max(begin, starts[stage]));
      const std::int64_t skipped = std::clamp<std::int64_t>(first - number, 0, to - from);
      const std::int64_t last = std::clamp<std::int64_t>(end - number, 0, to - from);
      const std::int64_t row = from + skipped;
      if (last > skipped) {
        visit({shard, order_.shard_place[shard] + order_.stage_row[stage] + row, last - skipped,
               starts[stage] + row * width + ordinal, width, number + skipped});
      }
      number += to - from;
    }
  }
}

std::int64_t StepOrder::FirstPlace(std::int64_t ordinal) const {
  return ordinal * order_.chunk_samples - (ordinal > order_.short_ordinal ? order_.missing : 0);
}

std::int64_t StepOrder::OrdinalAt(std::int64_t place) const {
  return (place + (place >= behind_short_ ? order_.missing : 0)) / order_.chunk_samples;
}

bool StepOrder::Open(Window& window, std::int64_t shard, std::int64_t place) {
  if (window.begin <= place && place < window.end) return false;
  const std::int64_t first = order_.shard_chunk[shard];
  const std::int64_t head = order_.first_window[shard];
  const std::int64_t behind = OrdinalAt(place) - first - head;
  const std::int64_t begin =
      behind < 0 ? first : first + head + behind / order_.window * order_.window;
  const std::int64_t chunks = std::min(behind < 0 ? head : order_.window,
                                       order_.shard_chunk[shard + 1] - begin);
  window.first_ordinal = begin;
  window.begin = FirstPlace(begin);
  window.end = FirstPlace(begin + chunks);
  window.permutation =
      Permutation(static_cast<std::uint64_t>(window.end - window.begin),
                  KeyFor(KeyOf(order_.window_key), static_cast<std::uint64_t>(begin)));
  window.chunks.assign(static_cast<std::size_t>(chunks), -1);
  return true;
}

std::int64_t StepOrder::Permuted(const Window& window, std::int64_t place) const {
  if (!order_.is_shuffled) return place;
  return window.begin + static_cast<std::int64_t>(window.permutation.Forward(
                            static_cast<std::uint64_t>(place - window.begin)));
}

std::int64_t StepOrder::SampleAt(Window& window, std::int64_t place) const {
  if (!order_.is_shuffled) return place;
  const std::int64_t ordinal = OrdinalAt(place);
  std::int64_t& chunk = window.chunks[static_cast<std::size_t>(ordinal - window.first_ordinal)];
  if (chunk < 0) {
    chunk = static_cast<std::int64_t>(chunks_.Forward(static_cast<std::uint64_t>(ordinal)));
  }
  return chunk * order_.chunk_samples + place - FirstPlace(ordinal);
}

}  // namespace io
}  // namespace horovod_opt
