// Shared memory of the node cache: chunks in a sealed memfd, between the reader and the ranks of a
// node.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "horovod_opt/csrc/core/base/file_descriptor.h"
#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"
#include "horovod_opt/csrc/core/waiting/event_count.h"
#include "horovod_opt/csrc/io/files/damages.h"

namespace horovod_opt {
namespace io {

struct Shape {
  std::int64_t ranks = 0;
  std::int64_t buffers = 0;
  std::int64_t buffer_bytes = 0;  // the largest chunk
  std::int64_t memory = 0;      // bytes that chunks may use at once
  std::int64_t start = 0;       // the first step
};

// Why nobody can go on.
enum class End : std::int32_t {
  kNone = 0,
  kClosed = 1,      // the reader, or this process, has closed the node cache
  kReaderDied = 2,  // known to each process by itself
  kRankDied = 3,
  kFailed = 4,      // the reader cannot go on: NodeCache::failure()
};

// All of these are zeros at first.

struct Counters {
  std::atomic<std::int64_t> bytes_read, requests, loads, skipped_loads;
  std::atomic<std::int64_t> live_bytes, most_live_bytes, most_used_bytes;
  std::atomic<std::int64_t> cached_bytes;  // of chunks that were not read, see kCached
  std::atomic<std::int64_t> again_bytes;   // from storage, of loads that are that
};

// Why the reader cannot go on, see NodeCache::Fail().
struct Failure {
  static constexpr std::size_t kBytes = 2048;

  std::atomic<bool> is_claimed;
  char text[kBytes];  // ends with a zero
};

struct Header {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> version;
  Shape shape;
  EventCount loaded;  // a chunk is there: for ranks; who: Waiters(load)
  EventCount room;    // a chunk may be over, or there is a new load: for the reader
  std::atomic<std::int64_t> room_after;  // no chunk is over before the lowest step is beyond this
  std::atomic<End> end;
  std::atomic<std::int64_t> dead_rank;
  Failure failure;
  Counters counters;
};

// Of a rank and its workers.
struct alignas(64) RankState {
  std::atomic<std::int64_t> cursor;  // the first step that is not done
  std::atomic<std::int64_t> waits, wait_ns, records, bytes, cached;
};

// A load is the reading of one chunk; their numbers ascend in the order in which they begin. Some
// may be left out.
//
// In the place of its chunk buffer, kCached: it is in the page cache, where each rank reads its
// records by itself. Its chunk buffer is kept for it, and nothing is written there.
constexpr std::int64_t kCached = -1;

struct Entry {
  std::atomic<std::int64_t> loaded;  // load + 1: it is there; -(load + 1): it was
  std::atomic<std::int64_t> buffer;
  // Which chunk it is, so that nobody takes another one's bytes, and the last step that needs it.
  std::atomic<std::int64_t> chunk, last;
};

// Steps that a rank may be done with before an earlier one.
constexpr std::int64_t kMarks = 1024;

// The memory, mapped. Errors are std::exception.
class NodeCacheMemory {
 public:
  static NodeCacheMemory Create(const Shape& shape);
  // What another process has created and handed over.
  static NodeCacheMemory Attach(Descriptor file);

  const Descriptor& file() const { return file_; }
  // In a process that was forked: it has not the memory, and must not keep it.
  void Forget() { file_ = Descriptor(); }

  const Shape& shape() const { return shape_; }
  Header& header() const { return *static_cast<Header*>(segment_.data()); }
  RankState& rank(std::int64_t rank) const { return ranks_[rank]; }
  std::atomic<std::int64_t>& mark(std::int64_t rank, std::int64_t step) const {
    return marks_[rank * kMarks + step % kMarks];
  }
  std::int64_t entries() const { return entries_; }
  Entry& entry(std::int64_t load) const { return table_[load % entries_]; }
  Damages& damages(std::int64_t buffer) const { return damages_[buffer]; }
  char* buffer(std::int64_t buffer) const { return buffers_ + buffer * buffer_stride_; }

  // Gives the pages of a part of a chunk buffer back to the system; page-aligned.
  void Punch(std::int64_t buffer, std::int64_t begin, std::int64_t end) const;

 private:
  NodeCacheMemory(Descriptor file, SharedSegment segment, const Shape& shape);

  Descriptor file_;
  SharedSegment segment_;
  Shape shape_;
  std::int64_t entries_;
  std::int64_t buffer_stride_;
  RankState* ranks_;
  std::atomic<std::int64_t>* marks_;
  Entry* table_;
  Damages* damages_;
  char* buffers_;
};

std::int64_t PageBytes();
// The next multiple of a page.
std::int64_t WholePages(std::int64_t bytes);

// Those who wait for a load, as a futex tells them from others: a wake-up for each is for few.
constexpr futex::Sleepers Waiters(std::int64_t load) { return futex::Sleepers{1} << load % 32; }

}  // namespace io
}  // namespace horovod_opt
