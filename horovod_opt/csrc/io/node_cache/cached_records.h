// Page-cache reads: records that a rank takes from there by itself, because the reader found their
// chunk there.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
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
// as it was: a call of preadv2(2) takes longer than copying 3 KiB. Longer records come by that call,
// and pages of shorter ones are let go of behind the reader: what is mapped counts as this
// process's memory, by which schedulers of batches end it.
//
// Invariants of what is let go of: (1) a part of a file that a record was copied from is noted until
// it is let go of; (2) that is when the rank has done the last step that needs a chunk in it; (3) a
// copy that runs meanwhile finds the page again in the page cache, so none is wrong.
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

  // They were read, of a chunk that is needed until step `last`.
  void NoteUse(std::int32_t file, std::int64_t offset, std::int64_t bytes, std::int64_t last);
  // The rank needs nothing more of the steps before this one.
  void LetGo(std::int64_t step);

 private:
  struct Mapped {
    char* data = nullptr;
    std::int64_t bytes = 0;
    std::int64_t first_part = 0;  // number of its first part, of those of all files
  };
  struct UsedPart {
    std::int64_t last;  // step
    std::int32_t file;
    std::int64_t part;  // in the file

    bool operator>(const UsedPart& other) const { return last > other.last; }
  };

  void MapAll();
  void Unmap(std::vector<UsedPart> parts);

  OpenFiles files_;
  ExtentReader from_storage_;
  std::once_flag once_;
  std::vector<Mapped> mapped_;  // by file; none where they are many
  std::vector<std::atomic<std::uint64_t>> is_used_;  // a bit for each part
  std::mutex used_mutex_;
  std::priority_queue<UsedPart, std::vector<UsedPart>, std::greater<UsedPart>> used_;
  std::atomic<std::int64_t> first_last_;  // the lowest last step in it
};

}  // namespace io
}  // namespace horovod_opt
