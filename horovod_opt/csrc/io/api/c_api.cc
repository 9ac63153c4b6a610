#include "horovod_opt/csrc/io/api/c_api.h"

#include <unistd.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/api/byte_lists.h"
#include "horovod_opt/csrc/io/node_cache/cached_records.h"
#include "horovod_opt/csrc/io/files/crc32c.h"
#include "horovod_opt/csrc/io/node_cache/gather.h"
#include "horovod_opt/csrc/io/api/handles.h"
#include "horovod_opt/csrc/io/node_cache/loader.h"
#include "horovod_opt/csrc/io/files/page_cache.h"
#include "horovod_opt/csrc/io/node_cache/peer_watch.h"
#include "horovod_opt/csrc/io/order/permutation.h"
#include "horovod_opt/csrc/io/order/step_order.h"

namespace horovod_opt {
namespace io {

std::string& LastError() {
  thread_local std::string error;
  return error;
}

int EndOf(const Ring& ring) {
  switch (ring.end()) {
    case End::kNone:
      return HIO_OK;
    case End::kClosed:
      return HIO_CLOSED;
    case End::kLeaderDied:
      return HIO_LEADER_DIED;
    case End::kRankDied:
      return HIO_RANK_DIED;
    case End::kFailed:
      LastError() = ring.failure();
      return HIO_LEADER_FAILED;
  }
  return HIO_CLOSED;
}

int Code(Gathered gathered, const Ring& ring) {
  switch (gathered) {
    case Gathered::kAll:
      return HIO_OK;
    case Gathered::kTimeout:
      return HIO_TIMEOUT;
    case Gathered::kOver:
      return HIO_OVER;
    case Gathered::kTooFar:
      return HIO_TOO_FAR;
    case Gathered::kEnded:
      break;
  }
  return EndOf(ring);
}

}  // namespace io
}  // namespace horovod_opt

using horovod_opt::Descriptor;
namespace io = horovod_opt::io;

int hio_version(void) { return HIO_VERSION; }

const char* hio_error(void) { return io::LastError().c_str(); }

uint32_t hio_crc32c(uint32_t crc, const void* data, int64_t bytes) {
  return io::Crc32c(crc, data, static_cast<std::size_t>(bytes));
}

int hio_permute(int64_t count, const uint64_t* numbers, int64_t ns, const uint64_t* n, int64_t keys,
                const uint64_t* first, const uint64_t* step, int forward, uint64_t* out) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t below = n[ns > 1 ? i : 0];
      if (numbers[i] >= below || below > uint64_t{1} << 62) {
        throw std::invalid_argument("there is no number " + std::to_string(numbers[i]) + " of " +
                                    std::to_string(below) + " to permute");
      }
      const int64_t k = keys > 1 ? i : 0;
      const io::Permutation permutation(below, {first[k], step[k]});
      out[i] = forward ? permutation.Forward(numbers[i]) : permutation.Backward(numbers[i]);
    }
    return int{HIO_OK};
  });
}

int hio_order_take(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                   int64_t first, int64_t end, int64_t* taken_positions, int64_t* samples) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    io::StepOrder(*order).Take({begin, positions, steps}, first, end, taken_positions, samples);
    return int{HIO_OK};
  });
}

int hio_order_mark(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                   int64_t first, int64_t end, int64_t number, int64_t* firsts, int64_t* lasts,
                   int64_t* counts) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    io::StepOrder(*order).Mark({begin, positions, steps}, first, end, number, firsts, lasts,
                               counts);
    return int{HIO_OK};
  });
}

int hio_order_find(const HioOrder* order, int64_t begin, int64_t positions, int64_t steps,
                   int64_t first, int64_t end, int64_t windows, const int64_t* turns,
                   const int64_t* begins, uint8_t* taken) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    io::StepOrder(*order).Find({begin, positions, steps}, first, end, {turns, turns + windows},
                               begins, taken);
    return int{HIO_OK};
  });
}

HioRing* hio_create(int64_t ranks, int64_t slots, int64_t slot_bytes, int64_t memory,
                    int64_t start) {
  return io::Guarded<HioRing*>(nullptr, [&] {
    return new HioRing(io::RingMemory::Create({ranks, slots, slot_bytes, memory, start}));
  });
}

int hio_file(const HioRing* ring) { return ring->ring.memory().file().number(); }

HioRing* hio_attach(int file) {
  return io::Guarded<HioRing*>(nullptr,
                           [&] { return new HioRing(io::RingMemory::Attach(Descriptor(file))); });
}

int hio_watch(HioRing* ring, int socket) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    ring->watch = std::make_unique<io::PeerWatch>(
        socket, [ring] { ring->ring.EndHere(io::End::kLeaderDied); });
    return int{HIO_OK};
  });
}

int hio_files(HioRing* ring, const char* root, int64_t files, const char* names,
              const int64_t* ends, const int64_t* bytes, const int64_t* mtime_ns) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    ring->files = {root, files, names, ends, bytes, mtime_ns};
    ring->cached = std::make_unique<io::CachedRecords>(
        ring->files, ring->ring.memory().header().counters, ring->ring.ended_here());
    return int{HIO_OK};
  });
}

int hio_start(HioRing* ring, int threads, int leave_cached) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    ring->loader =
        std::make_unique<io::Loader>(ring->ring, ring->files, threads, pread,
                                     leave_cached ? io::IsCached : io::Loader::Cached());
    return int{HIO_OK};
  });
}

int hio_announce(HioRing* ring, int64_t loads, const int64_t* first, const int64_t* last,
                 const int64_t* bytes) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    std::vector<io::Load> announced;
    for (int64_t i = 0; i < loads; ++i) announced.push_back({first[i], last[i], bytes[i], {}});
    ring->loader->Check(announced);
    return int{HIO_OK};
  });
}

int hio_loads(HioRing* ring, int64_t loads, const int64_t* first, const int64_t* last,
              const int64_t* bytes, const int64_t* extents, const int32_t* file,
              const int64_t* offset, const int64_t* length, const int64_t* place) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    std::vector<io::Load> added;
    for (int64_t i = 0; i < loads; ++i) {
      io::Load load{first[i], last[i], bytes[i], {}};
      for (int64_t e = extents[i]; e < extents[i + 1]; ++e) {
        load.extents.push_back({file[e], offset[e], length[e], place[e]});
      }
      added.push_back(std::move(load));
    }
    const bool is_added = ring->loader->Add(std::move(added));
    return is_added ? int{HIO_OK} : io::EndOf(ring->ring);
  });
}

int hio_gather(HioRing* ring, int64_t rank, int64_t step, int64_t records, const int64_t* load,
               const int64_t* place, const int64_t* size, const uint32_t* checksum,
               const int32_t* file, const int64_t* offset, void* out, const int64_t* out_place,
               int32_t* status, int64_t* begin, int64_t milliseconds) {
  return io::Guarded(int{HIO_FAILED}, [&]() -> int {
    const io::Records wanted{records, load,   place, size, checksum, file, offset,
                             static_cast<char*>(out), out_place, status};
    return io::Code(
        io::Gather(ring->ring, *ring->cached, rank, step, wanted, *begin,
                   std::chrono::milliseconds(milliseconds)),
        ring->ring);
  });
}

int hio_take(HioRing* ring, int64_t rank, int64_t first, int64_t steps, const int64_t* ends,
             const int64_t* load, const int64_t* place, const int64_t* size,
             const uint32_t* checksum, const int32_t* file, const int64_t* offset,
             const int64_t* out_place, int32_t* status, void* out,
             int64_t origin, int64_t* taken, int64_t* begin, int64_t* bad, int64_t milliseconds) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    const io::Records wanted{0,      load,      place,  size,  checksum, file,
                             offset, static_cast<char*>(out), out_place, status, origin};
    io::Progress progress{*taken, *begin, *bad};
    const io::Gathered gathered =
        io::GatherSteps(ring->ring, *ring->cached, rank, first, steps, ends, wanted, progress,
                        std::chrono::milliseconds(milliseconds));
    *taken = progress.steps;
    *begin = progress.records;
    *bad = progress.bad;
    return io::Code(gathered, ring->ring);
  });
}

void* hio_byte_lists(const HioPython* python, int64_t lists, const int64_t* ends,
                     const int64_t* sizes, int64_t* places) {
  return io::NewByteLists(*python, lists, ends, sizes, places);
}

int hio_done(HioRing* ring, int64_t rank, int64_t step) {
  return ring->ring.Done(rank, step) ? HIO_OK : HIO_TOO_FAR;
}

int hio_skip_to(HioRing* ring, int64_t rank, int64_t step) {
  ring->ring.SkipTo(rank, step);
  return HIO_OK;
}

int hio_leave(HioRing* ring, int64_t rank) {
  ring->ring.Leave(rank);
  return HIO_OK;
}

int hio_has_left(const HioRing* ring, int64_t rank) { return ring->ring.HasLeft(rank); }

int64_t hio_cursor(const HioRing* ring, int64_t rank) {
  return ring->ring.memory().rank(rank).cursor;
}

void hio_leader_stats(const HioRing* ring, int64_t stats[8]) {
  const io::Counters& counters = ring->ring.memory().header().counters;
  const std::atomic<std::int64_t>* const in_order[] = {
      &counters.bytes_read,     &counters.requests,   &counters.loads,
      &counters.skipped_loads,  &counters.live_bytes, &counters.most_live_bytes,
      &counters.most_used_bytes, &counters.cached_bytes};
  for (const auto* counter : in_order) *stats++ = *counter;
}

void hio_rank_stats(const HioRing* ring, int64_t rank, int64_t stats[5]) {
  const io::RankState& state = ring->ring.memory().rank(rank);
  for (const auto* counter :
       {&state.waits, &state.wait_ns, &state.records, &state.bytes, &state.cached}) {
    *stats++ = *counter;
  }
}

int hio_state(const HioRing* ring) { return io::EndOf(ring->ring); }

int64_t hio_dead_rank(const HioRing* ring) { return ring->ring.memory().header().dead_rank; }

void hio_end(HioRing* ring, int64_t dead_rank) {
  ring->ring.EndForAll(dead_rank < 0 ? io::End::kClosed : io::End::kRankDied, dead_rank);
}

void hio_fail(HioRing* ring, const char* why) { ring->ring.Fail(why); }

void hio_end_here(HioRing* ring) { ring->ring.EndHere(io::End::kClosed); }

void hio_free(HioRing* ring) {
  ring->ring.EndHere(io::End::kClosed);  // whoever takes a step returns
  for (const auto& each : ring->queues) {
    if (const auto queue = each.lock()) queue->Detach();
  }
  ring->watch.reset();
  ring->loader.reset();
  delete ring;
}

void hio_forget(HioRing* ring) { ring->ring.memory().Forget(); }
