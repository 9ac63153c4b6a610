// The C functions of a node's cache, of its reader and of ranks.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/api/handles.h"
#include "horovod_opt/csrc/io/node_cache/cached_records.h"
#include "horovod_opt/csrc/io/node_cache/gather.h"
#include "horovod_opt/csrc/io/node_cache/loader.h"
#include "horovod_opt/csrc/io/node_cache/peer_watch.h"
#include "horovod_opt_io_abi.h"

namespace horovod_opt {
namespace io {

int EndOf(const NodeCache& cache) {
  switch (cache.end()) {
    case End::kNone:
      return HIO_OK;
    case End::kClosed:
      return HIO_CLOSED;
    case End::kReaderDied:
      return HIO_READER_DIED;
    case End::kRankDied:
      return HIO_RANK_DIED;
    case End::kFailed:
      LastError() = cache.failure();
      return HIO_READER_FAILED;
  }
  return HIO_CLOSED;
}

int Code(GatherResult result, const NodeCache& cache) {
  switch (result) {
    case GatherResult::kAll:
      return HIO_OK;
    case GatherResult::kTimeout:
      return HIO_TIMEOUT;
    case GatherResult::kOver:
      return HIO_OVER;
    case GatherResult::kTooFar:
      return HIO_TOO_FAR;
    case GatherResult::kOther:
      return HIO_OTHER;
    case GatherResult::kEnded:
      break;
  }
  return EndOf(cache);
}

Load LoadOf(const HioLoads& loads, std::int64_t i) {
  Load load{loads.first[i], loads.last[i], loads.bytes[i], {}};
  if (loads.number >= 0) load.number = loads.number + i;
  if (loads.chunks != nullptr) load.chunk = loads.chunks[i];
  load.is_again = loads.are_again != 0;
  load.is_parcel = loads.are_parcels != 0;
  for (std::int64_t e = loads.extents[i]; e < loads.extents[i + 1]; ++e) {
    load.extents.push_back(
        {loads.files[e], loads.offsets[e], loads.lengths[e], loads.places[e]});
    if (!load.is_parcel) continue;
    load.origins.push_back({loads.origin_chunks[e], loads.origin_places[e]});
  }
  if (loads.are_whole != nullptr) load.is_whole = loads.are_whole[i] != 0;
  for (std::int64_t r = loads.records == nullptr ? 0 : loads.records[i];
       loads.records != nullptr && r < loads.records[i + 1]; ++r) {
    load.records.push_back({loads.record_places[r], loads.record_sizes[r], loads.checksums[r]});
  }
  return load;
}

}  // namespace io
}  // namespace horovod_opt

using horovod_opt::Descriptor;
namespace io = horovod_opt::io;

HioNodeCache* hio_cache_create(int64_t ranks, int64_t buffers, int64_t buffer_bytes, int64_t memory,
                               int64_t start) {
  return io::Guarded<HioNodeCache*>(nullptr, [&] {
    return new HioNodeCache(
        io::NodeCacheMemory::Create({ranks, buffers, buffer_bytes, memory, start}));
  });
}

int hio_cache_file(const HioNodeCache* cache) { return cache->cache.memory().file().number(); }

HioNodeCache* hio_cache_attach(int file) {
  return io::Guarded<HioNodeCache*>(nullptr, [&] {
    return new HioNodeCache(io::NodeCacheMemory::Attach(Descriptor(file)));
  });
}

int hio_cache_watch(HioNodeCache* cache, int socket) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    cache->watch = std::make_unique<io::PeerWatch>(
        socket, [cache] { cache->cache.EndHere(io::End::kReaderDied); });
    return int{HIO_OK};
  });
}

int hio_cache_set_files(HioNodeCache* cache, const char* root, int64_t files, const void* names,
                        const int64_t* ends, const int64_t* bytes, const int64_t* mtime_ns) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    cache->files = {root, files, static_cast<const char*>(names), ends, bytes, mtime_ns};
    cache->cached = std::make_unique<io::CachedRecords>(
        cache->files, cache->cache.memory().header().counters, cache->cache.ended_here());
    return int{HIO_OK};
  });
}

int hio_cache_start(HioNodeCache* cache, int threads, int leave_cached, HioJobMemory* memory) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    cache->loader =
        std::make_unique<io::Loader>(cache->cache, cache->files, threads, pread,
                                     leave_cached ? io::IsCached : io::Loader::Cached(),
                                     memory == nullptr ? nullptr : memory->memory);
    return int{HIO_OK};
  });
}

int hio_cache_announce(HioNodeCache* cache, int64_t loads, const int64_t* first,
                       const int64_t* last, const int64_t* bytes) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    std::vector<io::Load> next;
    for (int64_t i = 0; i < loads; ++i) next.push_back({first[i], last[i], bytes[i], {}});
    cache->loader->Check(next);
    return int{HIO_OK};
  });
}

int hio_cache_add_loads(HioNodeCache* cache, const HioLoads* loads) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    std::vector<io::Load> next;
    for (int64_t i = 0; i < loads->count; ++i) next.push_back(io::LoadOf(*loads, i));
    const bool is_added = cache->loader->Add(std::move(next));
    return is_added ? int{HIO_OK} : io::EndOf(cache->cache);
  });
}

int hio_cache_gather(HioNodeCache* cache, int64_t rank, int64_t step, const HioRecords* records,
                     int64_t* begin, int64_t milliseconds) {
  return io::Guarded(int{HIO_FAILED}, [&]() -> int {
    return io::Code(io::Gather(cache->cache, *cache->cached, rank, step, *records, *begin,
                               std::chrono::milliseconds(milliseconds)),
                    cache->cache);
  });
}

int hio_cache_take(HioNodeCache* cache, int64_t rank, int64_t first, int64_t steps,
                   const int64_t* ends, const HioRecords* records, HioProgress* progress,
                   int64_t milliseconds) {
  return io::Guarded(int{HIO_FAILED}, [&] {
    HioProgress now = *progress;
    const io::GatherResult result =
        io::GatherSteps(cache->cache, *cache->cached, rank, {first, steps, ends}, *records, now,
                        std::chrono::milliseconds(milliseconds));
    *progress = now;
    return io::Code(result, cache->cache);
  });
}

int hio_cache_done(HioNodeCache* cache, int64_t rank, int64_t step) {
  return cache->cache.Done(rank, step) ? HIO_OK : HIO_TOO_FAR;
}

void hio_cache_skip_to(HioNodeCache* cache, int64_t rank, int64_t step) {
  cache->cache.SkipTo(rank, step);
}

void hio_cache_leave(HioNodeCache* cache, int64_t rank) { cache->cache.Leave(rank); }

int hio_cache_has_left(const HioNodeCache* cache, int64_t rank) {
  return cache->cache.HasLeft(rank);
}

int64_t hio_cache_cursor(const HioNodeCache* cache, int64_t rank) {
  return cache->cache.memory().rank(rank).cursor;
}

void hio_cache_reader_counters(const HioNodeCache* cache, HioReaderCounters* counters) {
  const io::Counters& now = cache->cache.memory().header().counters;
  *counters = {now.bytes_read, now.requests,        now.loads,           now.skipped_loads,
               now.live_bytes, now.most_live_bytes, now.most_used_bytes, now.cached_bytes,
               now.again_bytes};
}

void hio_cache_rank_counters(const HioNodeCache* cache, int64_t rank, HioRankCounters* counters) {
  const io::RankState& now = cache->cache.memory().rank(rank);
  *counters = {now.waits, now.wait_ns, now.records, now.bytes, now.cached};
}

int64_t hio_cache_dead_rank(const HioNodeCache* cache) {
  return cache->cache.memory().header().dead_rank;
}

void hio_cache_end(HioNodeCache* cache, int64_t dead_rank) {
  cache->cache.EndForAll(dead_rank < 0 ? io::End::kClosed : io::End::kRankDied, dead_rank);
}

void hio_cache_fail(HioNodeCache* cache, const char* why) { cache->cache.Fail(why); }

void hio_cache_end_here(HioNodeCache* cache) { cache->cache.EndHere(io::End::kClosed); }

void hio_cache_free(HioNodeCache* cache) {
  cache->cache.EndHere(io::End::kClosed);  // whoever takes a step returns
  for (const auto& weak : cache->queues) {
    if (const auto queue = weak.lock()) queue->Detach();
  }
  cache->watch.reset();
  cache->loader.reset();
  delete cache;
}

void hio_cache_forget(HioNodeCache* cache) { cache->cache.memory().Forget(); }
