// Reads a piece of a file, as much of it as can be read.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "horovod_opt/csrc/io/damages.h"
#include "horovod_opt/csrc/io/load.h"
#include "horovod_opt/csrc/io/open_files.h"
#include "horovod_opt/csrc/io/ring_memory.h"

namespace horovod_opt {
namespace io {

class ExtentReader {
 public:
  using Read = std::function<ssize_t(int, void*, size_t, off_t)>;

  // `read` is pread(2), but for tests. Reading ends early once `stop` is set.
  ExtentReader(OpenFiles& files, Counters& counters, const std::atomic<bool>& stop, Read read);

  // Into slot + extent.place. What cannot be read is zeros, and in `damages`: after an error (EIO,
  // ESTALE, ...) the file is opened again and the rest read in pieces of 4 KiB, so that one bad
  // block of a disk costs few records.
  void operator()(const Extent& extent, char* slot, Damages& damages);

 private:
  struct Piece {
    std::int64_t read;  // bytes
    Status status;      // why not all
  };

  Piece ReadPiece(int file, char* to, std::int64_t bytes, std::int64_t offset);
  void ReadBadPart(const Extent& extent, std::int64_t from, char* slot, Damages& damages);

  OpenFiles& files_;
  Counters& counters_;
  const std::atomic<bool>& stop_;
  const Read read_;
};

}  // namespace io
}  // namespace horovod_opt
