// Extent reads with posix_fadvise(2) ahead of them: a piece of a file, as much of it as can be
// read.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "horovod_opt/csrc/io/files/damages.h"
#include "horovod_opt/csrc/io/files/fifo_mutex.h"
#include "horovod_opt/csrc/io/files/open_files.h"
#include "horovod_opt/csrc/io/node_cache/node_cache_memory.h"

namespace horovod_opt {
namespace io {

// A piece of a file, and where in the chunk buffer it comes.
struct Extent {
  std::int32_t file;
  std::int64_t offset, bytes, place;
};

// Has the kernel ask for a part of a file, without waiting for it: posix_fadvise(2), of which it
// does no more than one request.
void AskAhead(int file, off_t offset, off_t bytes);

// A long extent is asked for before it is read, where the kernel would ask the storage for little
// at a time (RequestBytes()) and wait: the storage would do nothing for this node between two
// requests, and read a little of each node's file in turn. What is asked for together stays
// together in a queue of the storage, so each node gets its turn with about kStep bytes, and nobody
// has to pass it on, as in the dissertation (5.2.4). What that brings is in docs/lab/io-bench.md.
//
// Invariants:
//   (1) nothing is asked for but what the extent has, each byte once, in the file's order;
//   (2) at most kAhead bytes that were asked for are not read yet, of all threads together: they
//       wait in the page cache, which may have little room;
//   (3) one thread at a time reads such an extent, so requests of two are not mixed;
//   (4) threads read such extents in the order in which they come: the chunk that is needed first
//       waits for none that was begun after it.
//
// With larger requests several threads that wait for one each have as much under way: there, and
// where the size of requests is not known, nothing is asked for.
class ExtentReader {
 public:
  using Read = std::function<ssize_t(int, void*, size_t, off_t)>;
  using Ask = std::function<void(int, off_t, off_t bytes)>;

  static constexpr std::int64_t kStep = std::int64_t{1} << 20;  // bytes; a longer extent is long
  static constexpr std::int64_t kAhead = 4 * kStep;
  static constexpr std::int64_t kMostRequest = kAhead / 8;

  // `read` is pread(2), and `ask` is AskAhead(), but for tests. Reading ends early once `stop` is
  // set.
  ExtentReader(OpenFiles& files, Counters& counters, const std::atomic<bool>& stop, Read read,
               Ask ask = AskAhead);

  // Into chunk buffer + extent.place. What cannot be read is zeros, and in `damages`: after an
  // error (EIO, ESTALE, ...) the file is opened again and the rest read in pieces of 4 KiB, so that
  // one bad block of a disk costs few records.
  void operator()(const Extent& extent, char* buffer, Damages& damages);

 private:
  struct Piece {
    std::int64_t read;  // bytes
    Status status;      // why not all
  };

  Piece ReadPiece(const OpenFile& file, char* to, std::int64_t bytes, std::int64_t offset);
  // In requests as the kernel makes them.
  void AskFor(const OpenFile& file, std::int64_t begin, std::int64_t end);
  void ReadBadPart(const Extent& extent, std::int64_t from, char* buffer, Damages& damages);

  OpenFiles& files_;
  Counters& counters_;
  const std::atomic<bool>& stop_;
  const Read read_;
  const Ask ask_;
  FifoMutex long_;  // invariants 2 to 4
};

}  // namespace io
}  // namespace horovod_opt
