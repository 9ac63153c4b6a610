#include "horovod_opt/csrc/io/node_cache/gather.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/io/files/crc32c.h"

namespace horovod_opt {
namespace io {
namespace {

void Check(const Shape& shape, std::int64_t rank, std::int64_t files, const Records& records,
           std::int64_t begin) {
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
    if (records.files[i] < 0 || records.files[i] >= files || records.offsets[i] < 0) {
      throw std::invalid_argument("there is no offset " + std::to_string(records.offsets[i]) +
                                  " of file " + std::to_string(records.files[i]) + ", of " +
                                  std::to_string(files) + " files");
    }
  }
}

// The checksum decides where there is one: a record next to a bad block is good.
Status CopyRecord(const RingMemory& memory, std::int64_t slot, CachedRecords& cached,
                  const Records& records, std::int64_t i) {
  const std::int64_t place = records.places[i];
  const std::int64_t size = records.sizes[i];
  char* const out = reinterpret_cast<char*>(reinterpret_cast<std::intptr_t>(records.out) +
                                            records.out_places[i] - records.origin);
  Status damage = kGood;
  if (slot == kCached) {
    damage = cached.Read(records.files[i], records.offsets[i], size, records.checksums != nullptr,
                         out);
  } else {
    std::memcpy(out, memory.slot(slot) + place, static_cast<std::size_t>(size));
    damage = memory.damages(slot).Of(place, place + size);
  }
  if (records.checksums == nullptr) return damage;
  const auto is_good = [&] {
    return Crc32c(0, out, static_cast<std::size_t>(size)) == records.checksums[i];
  };
  if (is_good()) return kGood;
  if (slot == kCached) {
    damage = cached.Reread(records.files[i], records.offsets[i], size, out);
    if (is_good()) return kGood;
  }
  return damage != kGood ? damage : kChecksum;
}

// The first lines of a record, on their way from memory while the one before it is copied. Two are best:
// the processor fetches the others by itself.
void Prefetch(const RingMemory& memory, CachedRecords& cached, const Records& records,
              std::int64_t i) {
  constexpr int kLines = 2, kLineBytes = 64;
  const std::int64_t slot = memory.entry(records.loads[i]).slot;
  const char* const record =
      slot == kCached ? cached.Find(records.files[i], records.offsets[i], records.sizes[i])
                      : memory.slot(slot) + records.places[i];
  if (record == nullptr) return;
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

Gathered Gather(Ring& ring, CachedRecords& cached, std::int64_t rank, std::int64_t step,
                const Records& records, std::int64_t& begin, std::chrono::nanoseconds longest) {
  RingMemory& memory = ring.memory();
  Check(memory.shape(), rank, cached.files(), records, begin);
  RankState& state = memory.rank(rank);
  if (step < state.cursor.load()) return Gathered::kOver;
  const auto deadline = EventCount::Clock::now() + longest;
  const std::int64_t first = begin;
  std::int64_t bytes = 0, from_cache = 0;
  Gathered result = Gathered::kAll;
  while (begin < records.count) {
    const std::int64_t load = records.loads[begin];
    result = Wait(ring, load, rank, deadline);
    if (result != Gathered::kAll) break;
    const std::int64_t next = begin + 1;
    if (next < records.count) Prefetch(memory, cached, records, next);
    const std::int64_t slot = memory.entry(load).slot.load();
    records.statuses[begin] = CopyRecord(memory, slot, cached, records, begin);
    // Somebody may have ended the step meanwhile, and the slot may have another chunk.
    if (ring.Look(load) != Ring::Presence::kThere) {
      result = Gathered::kOver;
      break;
    }
    bytes += records.sizes[begin];
    from_cache += slot == kCached;
    begin = next;
  }
  state.records += begin - first;
  state.bytes += bytes;
  state.cached += from_cache;
  return result;
}

Gathered GatherSteps(Ring& ring, CachedRecords& cached, std::int64_t rank, std::int64_t first,
                     std::int64_t count, const std::int64_t* ends, Records records,
                     Progress& progress, std::chrono::nanoseconds longest) {
  for (const std::int64_t before = progress.steps; progress.steps < count; ++progress.steps) {
    records.count = ends[progress.steps];
    const bool may_wait = progress.steps == before;
    if (!may_wait && !AreThere(ring, records, progress.records)) break;
    const std::int64_t begin = progress.records;
    const Gathered gathered =
        Gather(ring, cached, rank, first + progress.steps, records, progress.records, longest);
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
