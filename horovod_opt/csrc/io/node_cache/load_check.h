// Deadlock avoidance: refuses a sequence of loads with which the node cache could stand still for
// ever.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/io/node_cache/node_cache_memory.h"
#include "horovod_opt/csrc/io/node_cache/read_extent.h"

namespace horovod_opt {
namespace io {

// A record in the chunk buffer, and the CRC-32C that it has by the index.
struct RecordCheck {
  std::int64_t place, bytes;
  std::uint32_t checksum;
};

// Where an extent lies in the data set's chunks: `chunk`, as it comes in a chunk buffer, from
// `place` on.
struct Origin {
  std::int64_t chunk, place;
};

// A chunk, or a parcel, needed by ranks of the node in the steps from `first` to `last`. A parcel
// is what a rank takes in a few steps, of whichever chunks.
struct Load {
  std::int64_t first, last;
  std::int64_t bytes;  // in the chunk buffer
  std::vector<Extent> extents;
  std::int64_t number = -1;  // -1: that after the last one
  std::int64_t chunk = -1;   // -1: nobody compares it
  bool is_again = false;     // the job has read it before
  // For a ChunkSource: whether the extents are all of the chunk, and their records; none are
  // compared where the index has no checksums.
  bool is_whole = false;
  std::vector<RecordCheck> records = {};
  // A parcel, with the origin of each extent, which is a record; for a ChunkSource.
  bool is_parcel = false;
  std::vector<Origin> origins = {};
};

// The node cache's invariants:
//   (1) loads begin in the order of the first step that needs them;
//   (2) the chunk of a load is freed only when every rank is done with its last step;
//   (3) for each load q, the chunks of q and of those loads before q whose last step is not before
//       the first step of q fit into `memory` and into the chunk buffers; and when q begins, the
//       load that had its entry in the table before is over.
//
// Then the rank with the lowest step, s, can always go on, whatever the others do. Say it waits for
// load q, so first(q) <= s. Every load r <= q that has not begun has first(r) <= first(q) <= s by
// (1). Take the lowest of them. All loads before it have begun and are read in finite time. Those
// whose last step is before first(r) <= s can be freed, because no rank is below s. All others fit
// beside r by (3): so r begins. By induction q begins, is read, and is not freed before this rank
// is done with s, by (2). Nothing in this asks another rank to move, so ranks that wait for each
// other in a collective operation cannot close a circle through the node cache.
//
// Memory beyond that of (3) is used to read ahead.
class LoadCheck {
 public:
  LoadCheck(const Shape& shape, std::int64_t entries);

  // Throws std::invalid_argument with what is wrong with the next load, and both figures.
  void Add(const Load& load);

 private:
  using LastAndBytes = std::pair<std::int64_t, std::int64_t>;

  Shape shape_;
  std::vector<std::int64_t> last_steps_;  // by entry
  std::int64_t next_ = 0;  // the number of a load that has none
  std::int64_t previous_first_;
  // Those that may be live when the next one begins.
  std::priority_queue<LastAndBytes, std::vector<LastAndBytes>, std::greater<LastAndBytes>> live_;
  std::int64_t live_bytes_ = 0;
};

}  // namespace io
}  // namespace horovod_opt
