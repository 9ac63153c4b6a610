#include "horovod_opt/csrc/io/node_cache/node_cache.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace horovod_opt {
namespace io {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

}  // namespace

bool NodeCache::Done(std::int64_t rank, std::int64_t step) {
  std::atomic<std::int64_t>& cursor = memory_.rank(rank).cursor;
  const std::int64_t before = cursor.load();
  if (step < before) return true;
  if (step - before >= kMarks) return false;
  memory_.mark(rank, step) = step + 1;
  // Marks are sequentially consistent: of two workers that end the cursor's step and the one after,
  // at least one finds both marks.
  std::int64_t now = cursor.load();
  while (now != kNever && memory_.mark(rank, now) == now + 1) {
    if (cursor.compare_exchange_strong(now, now + 1)) ++now;
  }
  if (now > before) NotifyIfLowest(before);
  return true;
}

void NodeCache::SkipTo(std::int64_t rank, std::int64_t step) {
  std::atomic<std::int64_t>& cursor = memory_.rank(rank).cursor;
  std::int64_t before = cursor.load();
  while (before < step && !cursor.compare_exchange_weak(before, step)) {
  }
  if (before < step) NotifyIfLowest(before);
}

void NodeCache::Leave(std::int64_t rank) { SkipTo(rank, kNever); }

bool NodeCache::HasLeft(std::int64_t rank) const { return memory_.rank(rank).cursor == kNever; }

std::int64_t NodeCache::LowestStep() const {
  std::int64_t lowest = kNever;
  for (std::int64_t rank = 0; rank < memory_.shape().ranks; ++rank) {
    lowest = std::min(lowest, memory_.rank(rank).cursor.load());
  }
  return lowest;
}

// If another rank is still there, it will notify.
void NodeCache::NotifyIfLowest(std::int64_t before) {
  Header& header = memory_.header();
  const std::int64_t lowest = LowestStep();
  if (lowest > before && lowest > header.room_after.load()) header.room.Notify();
}

void NodeCache::Publish(std::int64_t load, std::int64_t buffer, std::int64_t chunk,
                        std::int64_t last) {
  Entry& entry = memory_.entry(load);
  entry.buffer = buffer;
  entry.chunk = chunk;
  entry.last = last;
  entry.loaded = load + 1;
  memory_.header().loaded.Notify(Waiters(load));
}

void NodeCache::Withdraw(std::int64_t load) {
  memory_.entry(load).loaded = -(load + 1);
  memory_.header().loaded.Notify(Waiters(load));
}

NodeCache::Presence NodeCache::Look(std::int64_t load) const {
  const std::int64_t loaded = memory_.entry(load).loaded.load();
  if (loaded == load + 1) return Presence::kThere;
  return (loaded < 0 ? -loaded : loaded) > load ? Presence::kOver : Presence::kNotYet;
}

NodeCache::Arrival NodeCache::Await(std::int64_t load, std::int64_t rank,
                         EventCount::Clock::time_point deadline) {
  const auto is_over = [&] { return Look(load) != Presence::kNotYet || end() != End::kNone; };
  bool in_time = true;
  if (!is_over()) {
    WaitCounts counts;
    const auto begin = EventCount::Clock::now();
    in_time = memory_.header().loaded.Await(is_over, ended_here_, counts, futex::kForever, deadline,
                                            Waiters(load));
    const std::chrono::nanoseconds wait = EventCount::Clock::now() - begin;
    memory_.rank(rank).waits += counts.waits;
    memory_.rank(rank).wait_ns += wait.count();
  }
  if (end() != End::kNone) return Arrival::kEnded;
  if (!in_time) return Arrival::kTimeout;
  return Look(load) == Presence::kThere ? Arrival::kThere : Arrival::kOver;
}

void NodeCache::EndForAll(End why, std::int64_t dead_rank) {
  Header& header = memory_.header();
  End none = End::kNone;
  header.dead_rank = dead_rank;
  header.end.compare_exchange_strong(none, why);
  EndHere(why);
}

void NodeCache::EndHere(End why) {
  End none = End::kNone;
  end_here_.compare_exchange_strong(none, why);
  ended_here_ = true;
  memory_.header().loaded.Kick();
  memory_.header().room.Kick();
}

End NodeCache::end() const {
  const End shared = memory_.header().end.load();
  return shared != End::kNone ? shared : end_here_.load();
}

void NodeCache::Fail(const std::string& text) {
  Failure& failure = memory_.header().failure;
  if (failure.is_claimed.exchange(true)) return;
  const std::size_t bytes = std::min(text.size(), Failure::kBytes - 1);  // the rest is zeros
  std::memcpy(failure.text, text.data(), bytes);
  EndForAll(End::kFailed, 0);
}

std::string NodeCache::failure() const {
  return end() == End::kFailed ? memory_.header().failure.text : "";
}

}  // namespace io
}  // namespace horovod_opt
