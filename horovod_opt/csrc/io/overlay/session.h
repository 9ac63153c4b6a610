// What this process knows of the job's files: the table, and counters that all programs add to.
#pragma once

#include <atomic>
#include <cstdint>

#include "horovod_opt/csrc/io/overlay/file_table.h"
#include "horovod_opt/csrc/io/overlay/paths.h"

namespace horovod_opt {
namespace io {

// In this order on the page: horovod_opt/io/overlay/counters.py.
struct FileCounters {
  std::atomic<std::uint64_t> opens_local;     // files whose bytes the program read itself
  std::atomic<std::uint64_t> opens_store;     // that the store handed over
  std::atomic<std::uint64_t> stat_answered;   // also what is not there
  std::atomic<std::uint64_t> folders_listed;
  std::atomic<std::uint64_t> refused;         // changes
  std::atomic<std::uint64_t> storage_bytes;   // that programs read of parts
  std::atomic<std::uint64_t> failures;        // said on stderr
};

class FileSession {
 public:
  // nullptr where the program was not started with a table, or cannot read it (that is said).
  static FileSession* Get();

  const FileTable& table() const { return *table_; }
  FileCounters& counters() { return *counters_; }
  static void Count(std::atomic<std::uint64_t>& counter, std::uint64_t by = 1) {
    counter.fetch_add(by, std::memory_order_relaxed);
  }

  // As Resolve().
  Resolved Find(int dirfd, PassedPath* path) const;

  // The number of the file or folder that a descriptor is of, or AT_FDCWD if the working folder is
  // not really there; -1: of none of the table.
  static std::int64_t NumberOf(int fd);

  // A descriptor of a file or folder as open() gives it; -1 and errno. What cannot be read is said.
  int Open(std::uint32_t number, int flags);

  // A line on stderr: the file, and why.
  void Complain(std::uint32_t number, const char* why, const char* remedy);
  void Complain(const char* path, const char* why, const char* remedy);

 private:
  bool Map(const char* path);
  static std::int64_t NumberOfWorkingFolder();
  int Reopened(int fd, std::uint32_t number, int flags);
  int Filled(std::uint32_t number, const char* name);
  int FromStore(std::uint32_t number);

  const FileTable* table_ = nullptr;
  FileCounters* counters_ = nullptr;
};

}  // namespace io
}  // namespace horovod_opt
