#include "horovod_opt/csrc/io/gather.h"

#include <cstring>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/io/crc32c.h"

namespace horovod_opt {
namespace io {
namespace {

void Check(const Shape& shape, std::int64_t rank, const Records& records) {
  if (rank < 0 || rank >= shape.ranks) {
    throw std::invalid_argument("there is no rank " + std::to_string(rank) + " of " +
                                std::to_string(shape.ranks));
  }
  for (std::int64_t i = 0; i < records.count; ++i) {
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
  char* const out = records.out + records.out_places[i];
  std::memcpy(out, slot + place, static_cast<std::size_t>(size));
  if (records.checksums == nullptr) return damages.Of(place, place + size);
  if (Crc32c(0, out, static_cast<std::size_t>(size)) == records.checksums[i]) return kGood;
  const Status damage = damages.Of(place, place + size);
  return damage != kGood ? damage : kChecksum;
}

}  // namespace

Gathered Gather(Ring& ring, std::int64_t rank, std::int64_t step, const Records& records,
                std::int64_t& begin, std::chrono::nanoseconds longest) {
  RingMemory& memory = ring.memory();
  Check(memory.shape(), rank, records);
  RankState& state = memory.rank(rank);
  if (step < state.cursor.load()) return Gathered::kOver;
  const auto deadline = EventCount::Clock::now() + longest;
  for (; begin < records.count; ++begin) {
    const std::int64_t load = records.loads[begin];
    switch (ring.Await(load, rank, deadline - EventCount::Clock::now())) {
      case Ring::Waited::kThere: break;
      case Ring::Waited::kOver: return Gathered::kOver;
      case Ring::Waited::kTimeout: return Gathered::kTimeout;
      case Ring::Waited::kEnded: return Gathered::kEnded;
    }
    const std::int64_t slot = memory.entry(load).slot.load();
    records.statuses[begin] = CopyRecord(memory.slot(slot), memory.damages(slot), records, begin);
    // Somebody may have ended the step meanwhile, and the slot may have another chunk.
    if (ring.Look(load) != Ring::Presence::kThere) return Gathered::kOver;
    ++state.records;
    state.bytes += records.sizes[begin];
  }
  return Gathered::kAll;
}

}  // namespace io
}  // namespace horovod_opt
