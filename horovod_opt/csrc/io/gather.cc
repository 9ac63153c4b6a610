#include "horovod_opt/csrc/io/gather.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/io/crc32c.h"

namespace horovod_opt {
namespace io {
namespace {

void Check(const Shape& shape, std::int64_t rank, const Records& records, std::int64_t begin) {
  if (rank < 0 || rank >= shape.ranks) {
    throw std::invalid_argument("there is no rank " + std::to_string(rank) + " of " +
                                std::to_string(shape.ranks));
  }
  for (std::int64_t i = begin; i < records.count; ++i) {
    if (records.loads[i] < 0 || records.places[i] < 0 || records.sizes[i] < 0 ||
        records.sizes[i] > shape.slot_bytes ||
        records.places[i] > shape.slot_bytes - records.sizes[i]) {
      throw std::invalid_argument("load " + std::to_string(records.loads[i]) + " has no " +
                                  std::to_string(records.sizes[i]) + " bytes at " +
                                  std::to_string(records.places[i]) + ": a slot has " +
                                  std::to_string(shape.slot_bytes));
    }
  }
}

// The checksum decides where there is one: a record next to a bad block is good.
Status CopyRecord(const char* slot, const Damages& damages, const Records& records,
                  std::int64_t i) {
  const std::int64_t place = records.places[i];
  const std::int64_t size = records.sizes[i];
  char* const out = records.out + (records.out_places[i] - records.origin);
  std::memcpy(out, slot + place, static_cast<std::size_t>(size));
  if (records.checksums == nullptr) return damages.Of(place, place + size);
  if (Crc32c(0, out, static_cast<std::size_t>(size)) == records.checksums[i]) return kGood;
  const Status damage = damages.Of(place, place + size);
  return damage != kGood ? damage : kChecksum;
}

// The first lines of a record, on their way from memory while the one before it is copied. Two are best:
// the processor fetches the others by itself.
void Prefetch(const RingMemory& memory, std::int64_t load, std::int64_t place) {
  constexpr int kLines = 2, kLineBytes = 64;
  const char* const record = memory.slot(memory.entry(load).slot) + place;
  for (int line = 0; line < kLines; ++line) __builtin_prefetch(record + line * kLineBytes);
}

Gathered Wait(Ring& ring, std::int64_t load, std::int64_t rank,
              EventCount::Clock::time_point deadline) {
  switch (ring.Await(load, rank, deadline)) {
    case Ring::Waited::kThere:
      return Gathered::kAll;
    case Ring::Waited::kOver:
      return Gathered::kOver;
    case Ring::Waited::kTimeout:
      return Gathered::kTimeout;
    case Ring::Waited::kEnded:
      break;
  }
  return Gathered::kEnded;
}

bool AreThere(const Ring& ring, const Records& records, std::int64_t begin) {
  for (std::int64_t i = begin; i < records.count; ++i) {
    if (ring.Look(records.loads[i]) != Ring::Presence::kThere) return false;
  }
  return true;
}

}  // namespace

Gathered Gather(Ring& ring, std::int64_t rank, std::int64_t step, const Records& records,
                std::int64_t& begin, std::chrono::nanoseconds longest) {
  RingMemory& memory = ring.memory();
  Check(memory.shape(), rank, records, begin);
  RankState& state = memory.rank(rank);
  if (step < state.cursor.load()) return Gathered::kOver;
  const auto deadline = EventCount::Clock::now() + longest;
  const std::int64_t first = begin;
  std::int64_t bytes = 0;
  Gathered result = Gathered::kAll;
  while (begin < records.count) {
    const std::int64_t load = records.loads[begin];
    result = Wait(ring, load, rank, deadline);
    if (result != Gathered::kAll) break;
    const std::int64_t next = begin + 1;
    if (next < records.count) Prefetch(memory, records.loads[next], records.places[next]);
    const std::int64_t slot = memory.entry(load).slot.load();
    records.statuses[begin] = CopyRecord(memory.slot(slot), memory.damages(slot), records, begin);
    // Somebody may have ended the step meanwhile, and the slot may have another chunk.
    if (ring.Look(load) != Ring::Presence::kThere) {
      result = Gathered::kOver;
      break;
    }
    bytes += records.sizes[begin];
    begin = next;
  }
  state.records += begin - first;
  state.bytes += bytes;
  return result;
}

Gathered GatherSteps(Ring& ring, std::int64_t rank, std::int64_t first, std::int64_t count,
                     const std::int64_t* ends, Records records, Progress& progress,
                     std::chrono::nanoseconds longest) {
  for (const std::int64_t before = progress.steps; progress.steps < count; ++progress.steps) {
    records.count = ends[progress.steps];
    const bool may_wait = progress.steps == before;
    if (!may_wait && !AreThere(ring, records, progress.records)) break;
    const std::int64_t begin = progress.records;
    const Gathered gathered =
        Gather(ring, rank, first + progress.steps, records, progress.records, longest);
    if (gathered != Gathered::kAll) return gathered;
    for (std::int64_t i = begin; i < progress.records; ++i) {
      progress.bad += records.statuses[i] != kGood;
    }
    if (!ring.Done(rank, first + progress.steps)) return Gathered::kTooFar;
  }
  return Gathered::kAll;
}

}  // namespace io
}  // namespace horovod_opt
