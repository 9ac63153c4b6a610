#include "horovod_opt/csrc/io/node_cache/loader.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

namespace horovod_opt {
namespace io {
namespace {

// A process needs its descriptors elsewhere: a loader has at most 64, with those of its ranks.
constexpr std::size_t kMostOpen = 16;
constexpr std::size_t kMostQueued = 256;  // loads, of some MiB each: seconds of reading
// With their records: a MiB for each of the smallest ones.
constexpr std::size_t kMostQueuedToCheck = 16;

void Raise(std::atomic<std::int64_t>& most, std::int64_t value) {
  if (value > most) most = value;  // the turn's holder alone
}

}  // namespace

Loader::Loader(NodeCache& cache, FileTable files, int threads, ExtentReader::Read read,
               Cached cached, std::shared_ptr<ChunkSource> source)
    : cache_(cache),
      files_(std::move(files), kMostOpen),
      read_(files_, cache.memory().header().counters, cache.ended_here(), std::move(read)),
      cached_(std::move(cached)),
      source_(std::move(source)),
      announcement_check_(cache.memory().shape(), cache.memory().entries()),
      addition_check_(announcement_check_),
      has_load_(static_cast<std::size_t>(cache.memory().entries()), false),
      buffers_(cache.memory().shape().buffers, cache.memory().shape().memory,
             [&cache](std::int64_t buffer, std::int64_t begin, std::int64_t end) {
               cache.memory().Punch(buffer, begin, end);
             }) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
    pthread_setname_np(threads_.back().native_handle(), "hio-read");
  }
}

Loader::~Loader() {
  cache_.EndForAll(End::kClosed, 0);
  for (std::thread& thread : threads_) thread.join();
}

void Loader::Check(const std::vector<Load>& loads) {
  std::lock_guard<std::mutex> lock(queue_mutex_);
  LoadCheck check = announcement_check_;
  for (const Load& load : loads) check.Add(load);
  announcement_check_ = std::move(check);
}

bool Loader::Add(std::vector<Load> loads) {
  std::unique_lock<std::mutex> lock(queue_mutex_);
  const std::size_t most = source_ == nullptr ? kMostQueued : kMostQueuedToCheck;
  queue_changed_.wait(lock, [this, most] { return ended_ || queue_.size() < most; });
  if (ended_) return false;
  LoadCheck check = addition_check_;
  for (const Load& load : loads) {
    check.Add(load);
    for (const Extent& extent : load.extents) {
      if (extent.file < 0 || extent.file >= files_.size()) {
        throw std::invalid_argument("there is no file " + std::to_string(extent.file) + " of " +
                                    std::to_string(files_.size()));
      }
    }
  }
  addition_check_ = std::move(check);
  for (Load& load : loads) {
    if (load.number < 0) load.number = next_;
    next_ = load.number + 1;
  }
  std::move(loads.begin(), loads.end(), std::back_inserter(queue_));
  lock.unlock();
  cache_.memory().header().room.Notify();
  return true;
}

void Loader::Run() {
  try {
    NumberedLoad next;
    while (NextToRead(next)) Read(next);
  } catch (const std::exception& error) {  // of no record: those are damages
    cache_.Fail(error.what());
  }
  std::lock_guard<std::mutex> lock(queue_mutex_);
  ended_ = true;
  queue_changed_.notify_all();
}

// Whoever waits for room holds the turn: the others have nothing to do before that (invariant 1).
bool Loader::NextToRead(NumberedLoad& next) {
  std::lock_guard<std::mutex> turn(turn_);
  bool has_begun = false;
  const auto look = [&] {
    if (cache_.end() == End::kNone) has_begun = TryBegin(next);
    return has_begun || cache_.end() != End::kNone;
  };
  WaitCounts counts;
  cache_.memory().header().room.Await(look, cache_.ended_here(), counts);
  return has_begun;
}

bool Loader::TryBegin(NumberedLoad& next) {
  Counters& counters = cache_.memory().header().counters;
  for (;;) {
    const std::int64_t lowest_step = cache_.LowestStep();
    FreeWhatIsOver(lowest_step);
    Load* load;
    {
      std::lock_guard<std::mutex> lock(queue_mutex_);
      if (queue_.empty()) return false;
      load = &queue_.front();  // stays where it is: only the turn's holder takes it away
    }
    const bool has_entry = !has_load_[EntryOf(load->number)];
    if (has_entry && load->last < lowest_step) {  // skipped by all ranks
      cache_.Withdraw(load->number);
      ++counters.skipped_loads;
      Pop();
      continue;
    }
    const std::int64_t buffer = has_entry ? buffers_.Take(load->bytes) : -1;
    if (buffer < 0) {
      // Whoever changes the lowest step does so before it looks at this: one sees the other.
      cache_.memory().header().room_after =
          live_.empty() ? load->last : std::min(load->last, live_.begin()->first);
      if (cache_.LowestStep() == lowest_step) return false;
      continue;
    }
    next = {buffer, std::move(*load)};
    Pop();
    has_load_[EntryOf(next.load.number)] = true;
    live_.emplace(next.load.last, LiveLoad{next.load.number, buffer});
    counters.live_bytes = buffers_.live_bytes();
    Raise(counters.most_live_bytes, buffers_.live_bytes());
    Raise(counters.most_used_bytes, buffers_.used_bytes());
    return true;
  }
}

// Invariant 2. What ranks have skipped may still be being read; then it is freed later.
void Loader::FreeWhatIsOver(std::int64_t lowest_step) {
  for (auto it = live_.begin(); it != live_.end() && it->first < lowest_step;) {
    const LiveLoad live = it->second;
    if (cache_.Look(live.number) != NodeCache::Presence::kThere) {
      ++it;
      continue;
    }
    cache_.Withdraw(live.number);
    has_load_[EntryOf(live.number)] = false;
    buffers_.Free(live.buffer);
    it = live_.erase(it);
  }
  cache_.memory().header().counters.live_bytes = buffers_.live_bytes();
}

void Loader::Read(const NumberedLoad& next) {
  using Place = ChunkSource::Place;
  NodeCacheMemory& memory = cache_.memory();
  const std::atomic<bool>& stop = cache_.ended_here();
  const Place place = source_ == nullptr ? Place::kStorage : source_->Find(next.load, stop);
  // What this node keeps is not to be in the page cache, too.
  const bool may_be_cached = place == Place::kStorage || place == Place::kPeer;
  const bool is_cached = may_be_cached && IsCached(next.load);
  if (is_cached) {
    for (const Extent& extent : next.load.extents) {
      memory.header().counters.cached_bytes += extent.bytes;
    }
  } else if (place == Place::kToKeep) {
    ReadFromStorage(next);
    const bool is_read = cache_.end() == End::kNone;  // perhaps not all of it is there
    source_->Keep(next.load, is_read ? memory.buffer(next.buffer) : nullptr,
                  is_read && !memory.damages(next.buffer).empty());
  } else if (place == Place::kParcel) {
    memory.damages(next.buffer).Clear();
    for (const std::size_t extent :
         source_->Collect(next.load, memory.buffer(next.buffer), stop)) {
      ReadExtent(next, next.load.extents[extent]);
    }
  } else if (place == Place::kStorage ||
             !source_->Take(next.load, place, memory.buffer(next.buffer), stop)) {
    ReadFromStorage(next);
  } else {
    memory.damages(next.buffer).Clear();
  }
  if (cache_.end() != End::kNone) return;  // perhaps not all of it is there
  ++memory.header().counters.loads;
  cache_.Publish(next.load.number, is_cached ? kCached : next.buffer, next.load.chunk,
                 next.load.last);
  if (next.load.last < cache_.LowestStep()) memory.header().room.Notify();
}

void Loader::ReadFromStorage(const NumberedLoad& next) {
  cache_.memory().damages(next.buffer).Clear();
  for (const Extent& extent : next.load.extents) ReadExtent(next, extent);
}

void Loader::ReadExtent(const NumberedLoad& next, const Extent& extent) {
  NodeCacheMemory& memory = cache_.memory();
  read_(extent, memory.buffer(next.buffer), memory.damages(next.buffer));
  if (next.load.is_again) memory.header().counters.again_bytes += extent.bytes;
}

bool Loader::IsCached(const Load& load) {
  if (!cached_) return false;
  return std::all_of(load.extents.begin(), load.extents.end(), [this](const Extent& extent) {
    const OpenFile file = files_.Get(extent.file);
    return file.status == kGood && cached_(file.descriptor->number(), extent.offset, extent.bytes);
  });
}

std::size_t Loader::EntryOf(std::int64_t load) const {
  return static_cast<std::size_t>(load % cache_.memory().entries());
}

void Loader::Pop() {
  std::lock_guard<std::mutex> lock(queue_mutex_);
  queue_.pop_front();
  queue_changed_.notify_all();
}

}  // namespace io
}  // namespace horovod_opt
