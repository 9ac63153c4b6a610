// Page-cache reads: records that a rank takes from there by itself, because the reader found their
// chunk there.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "horovod_opt/csrc/io/files/damages.h"
#include "horovod_opt/csrc/io/files/open_files.h"
#include "horovod_opt/csrc/io/node_cache/read_extent.h"

namespace horovod_opt {
namespace io {

// Whether bytes of a file seem to be in the page cache: one in every 64 KiB is asked for, and none
// is waited for. False where the file system cannot tell, as that of many networks.
//
// Not by mincore(2): that says yes to whoever may not write the file.
bool IsCached(int file, std::int64_t offset, std::int64_t bytes);

// Reads them, if all are there: nothing is waited for. Else false, and `to` is undefined.
bool ReadCached(int file, char* to, std::int64_t bytes, std::int64_t offset);

// memcpy guarded against SIGBUS, out of a mapped file, which may be truncated at any time.
// False where the file ends before its mapping does, or storage fails: SIGBUS, which would end the
// process. Its handler is set by the first call; for what is not a copy of this kind, it calls the
// one that was there before. A handler that is set later takes its place.
bool CopyGuarded(char* to, const char* from, std::int64_t bytes);

// For several threads. Copying such a chunk into the node cache first would copy its records twice.
// Few files are mapped, all of them at the first record, so that one that is replaced later is read
// as it was: a call of preadv2(2) takes longer than copying 3 KiB.
class CachedRecords {
 public:
  // `stop` ends long reads; what has left the page cache meanwhile, and is not mapped, counts in
  // `counters` as read from storage.
  CachedRecords(FileTable table, Counters& counters, const std::atomic<bool>& stop);
  ~CachedRecords();
  CachedRecords(const CachedRecords&) = delete;

  std::int64_t files() const { return files_.size(); }

  // To `to`; zeros, and the reason, for what cannot be read. Out of a mapping only with
  // `is_checked`, for there a file's last page goes on with zeros if it is truncated: the caller
  // compares a checksum, and calls Reread() if it is another.
  Status Read(std::int32_t file, std::int64_t offset, std::int64_t bytes, bool is_checked,
              char* to);
  // The same, out of no mapping: says what is wrong.
  Status Reread(std::int32_t file, std::int64_t offset, std::int64_t bytes, char* to);

  // Where the bytes are mapped; null if they are not.
  const char* Find(std::int32_t file, std::int64_t offset, std::int64_t bytes);

 private:
  struct Mapped {
    char* data = nullptr;
    std::int64_t bytes = 0;
  };

  void MapAll();

  OpenFiles files_;
  ExtentReader from_storage_;
  std::once_flag once_;
  std::vector<Mapped> mapped_;  // by file; none where they are many
};

}  // namespace io
}  // namespace horovod_opt
