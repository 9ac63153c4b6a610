#include "horovod_opt/csrc/io/node_cache/gather.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/io/files/crc32c.h"

namespace horovod_opt {
namespace io {
namespace {

void Check(const Shape& shape, std::int64_t rank, std::int64_t files, const HioRecords& records,
           std::int64_t begin) {
  if (rank < 0 || rank >= shape.ranks) {
    throw std::invalid_argument("there is no rank " + std::to_string(rank) + " of " +
                                std::to_string(shape.ranks));
  }
  for (std::int64_t i = begin; i < records.count; ++i) {
    if (records.loads[i] < 0 || records.places[i] < 0 || records.sizes[i] < 0 ||
        records.sizes[i] > shape.buffer_bytes ||
        records.places[i] > shape.buffer_bytes - records.sizes[i]) {
      throw std::invalid_argument("load " + std::to_string(records.loads[i]) + " has no " +
                                  std::to_string(records.sizes[i]) + " bytes at " +
                                  std::to_string(records.places[i]) + ": a slot has " +
                                  std::to_string(shape.buffer_bytes));
    }
    if (records.files[i] < 0 || records.files[i] >= files || records.offsets[i] < 0) {
      throw std::invalid_argument("there is no offset " + std::to_string(records.offsets[i]) +
                                  " of file " + std::to_string(records.files[i]) + ", of " +
                                  std::to_string(files) + " files");
    }
  }
}

// The checksum decides where there is one: a record next to a bad block is good.
Status CopyRecord(const NodeCacheMemory& memory, std::int64_t buffer, CachedRecords& cached,
                  const HioRecords& records, std::int64_t i) {
  const std::int64_t place = records.places[i];
  const std::int64_t size = records.sizes[i];
  char* const out = reinterpret_cast<char*>(reinterpret_cast<std::intptr_t>(records.out) +
                                            records.out_places[i] - records.origin);
  Status damage = kGood;
  if (buffer == kCached) {
    damage = cached.Read(records.files[i], records.offsets[i], size, records.checksums != nullptr,
                         out);
  } else {
    std::memcpy(out, memory.buffer(buffer) + place, static_cast<std::size_t>(size));
    damage = memory.damages(buffer).Of(place, place + size);
  }
  if (records.checksums == nullptr) return damage;
  const auto is_good = [&] {
    return Crc32c(0, out, static_cast<std::size_t>(size)) == records.checksums[i];
  };
  if (is_good()) return kGood;
  if (buffer == kCached) {
    damage = cached.Reread(records.files[i], records.offsets[i], size, out);
    if (is_good()) return kGood;
  }
  return damage != kGood ? damage : kChecksum;
}

// Whether it is there, and brings another chunk than the record's.
bool IsOther(const NodeCache& cache, const HioRecords& records, std::int64_t i) {
  if (records.chunks == nullptr) return false;
  const std::int64_t chunk = cache.memory().entry(records.loads[i]).chunk.load();
  return chunk != NodeCache::kAnyChunk && chunk != records.chunks[i] &&
         cache.Look(records.loads[i]) == NodeCache::Presence::kThere;
}

// The first lines of a record, on their way from memory while the one before it is copied. Two are
// best: the processor fetches the others by itself.
void Prefetch(const NodeCacheMemory& memory, CachedRecords& cached, const HioRecords& records,
              std::int64_t i) {
  constexpr int kLines = 2, kLineBytes = 64;
  const std::int64_t buffer = memory.entry(records.loads[i]).buffer;
  if (buffer == kCached && records.checksums == nullptr) return;  // nothing is mapped
  const char* const record =
      buffer == kCached ? cached.Find(records.files[i], records.offsets[i], records.sizes[i])
                        : memory.buffer(buffer) + records.places[i];
  if (record == nullptr) return;
  for (int line = 0; line < kLines; ++line) __builtin_prefetch(record + line * kLineBytes);
}

GatherResult Wait(NodeCache& cache, std::int64_t load, std::int64_t rank,
              EventCount::Clock::time_point deadline) {
  switch (cache.Await(load, rank, deadline)) {
    case NodeCache::Arrival::kThere:
      return GatherResult::kAll;
    case NodeCache::Arrival::kOver:
      return GatherResult::kOver;
    case NodeCache::Arrival::kTimeout:
      return GatherResult::kTimeout;
    case NodeCache::Arrival::kEnded:
      break;
  }
  return GatherResult::kEnded;
}

bool AreThere(const NodeCache& cache, const HioRecords& records, std::int64_t begin) {
  for (std::int64_t i = begin; i < records.count; ++i) {
    if (cache.Look(records.loads[i]) != NodeCache::Presence::kThere) return false;
  }
  return true;
}

}  // namespace

GatherResult Gather(NodeCache& cache, CachedRecords& cached, std::int64_t rank, std::int64_t step,
                    const HioRecords& records, std::int64_t& begin,
                    std::chrono::nanoseconds longest) {
  NodeCacheMemory& memory = cache.memory();
  Check(memory.shape(), rank, cached.files(), records, begin);
  RankState& state = memory.rank(rank);
  if (step < state.cursor.load()) return GatherResult::kOver;
  const auto deadline = EventCount::Clock::now() + longest;
  const std::int64_t first = begin;
  std::int64_t bytes = 0, from_cache = 0;
  GatherResult result = GatherResult::kAll;
  while (begin < records.count) {
    const std::int64_t load = records.loads[begin];
    result = Wait(cache, load, rank, deadline);
    if (result != GatherResult::kAll) break;
    if (IsOther(cache, records, begin)) {
      result = GatherResult::kOther;
      break;
    }
    const std::int64_t next = begin + 1;
    if (next < records.count) Prefetch(memory, cached, records, next);
    const Entry& entry = memory.entry(load);
    const std::int64_t buffer = entry.buffer.load();
    records.statuses[begin] = CopyRecord(memory, buffer, cached, records, begin);
    if (buffer == kCached) {
      cached.NoteUse(records.files[begin], records.offsets[begin], records.sizes[begin],
                     entry.last.load());
    }
    // Somebody may have ended the step meanwhile, and the chunk buffer may have another chunk.
    if (cache.Look(load) != NodeCache::Presence::kThere) {
      result = GatherResult::kOver;
      break;
    }
    bytes += records.sizes[begin];
    from_cache += buffer == kCached;
    begin = next;
  }
  state.records += begin - first;
  state.bytes += bytes;
  state.cached += from_cache;
  return result;
}

GatherResult GatherSteps(NodeCache& cache, CachedRecords& cached, std::int64_t rank,
                         const StepEnds& steps, HioRecords records, HioProgress& progress,
                         std::chrono::nanoseconds longest) {
  for (const std::int64_t before = progress.steps; progress.steps < steps.count; ++progress.steps) {
    records.count = steps.ends[progress.steps];
    const std::int64_t step = steps.first + progress.steps;
    const bool may_wait = progress.steps == before;
    if (!may_wait && !AreThere(cache, records, progress.records)) break;
    const std::int64_t begin = progress.records;
    const GatherResult result =
        Gather(cache, cached, rank, step, records, progress.records, longest);
    if (result != GatherResult::kAll) return result;
    for (std::int64_t i = begin; i < progress.records; ++i) {
      progress.bad += records.statuses[i] != kGood;
    }
    if (!cache.Done(rank, step)) return GatherResult::kTooFar;
    cached.LetGo(cache.memory().rank(rank).cursor.load());
  }
  return GatherResult::kAll;
}

}  // namespace io
}  // namespace horovod_opt
