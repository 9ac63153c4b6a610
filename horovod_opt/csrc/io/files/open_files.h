// LRU cache of file descriptors: the data set's files, opened when they are needed and kept open
// for a while.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "horovod_opt/csrc/core/base/file_descriptor.h"
#include "horovod_opt/csrc/io/files/damages.h"

namespace horovod_opt {
namespace io {

// Bytes of a request for a file that is not on a block device of this machine: the kernel then asks
// for `read_ahead_kb` of its file system, 128 KiB by default, and waits for the answer, however
// much a pread(2) wants. NFS and FUSE say so under `folder`. 0: nothing does, or the device is one
// of this machine, whose requests may be larger.
std::int64_t RequestBytes(dev_t device, const std::string& folder = "/sys/class/bdi");

// The caller's memory, for a million names are much of it: the index's columns, mapped from a file.
struct FileTable {
  std::string root;  // folder of those whose names are not absolute
  std::int64_t files = 0;
  const char* names = nullptr;  // one after the other; name i ends before ends[i]
  const std::int64_t* ends = nullptr;
  const std::int64_t* bytes = nullptr;
  const std::int64_t* mtime_ns = nullptr;
};

struct OpenFile {
  std::shared_ptr<const Descriptor> descriptor;  // stays open while it is held
  Status status = kGood;                         // why there is none
  std::int64_t request_bytes = 0;                // see RequestBytes()
};

// For several threads.
class OpenFiles {
 public:
  using RequestSize = std::function<std::int64_t(dev_t device)>;

  // `asked_for` is RequestBytes(), but for tests.
  OpenFiles(FileTable table, std::size_t most_open,
            RequestSize request_size = [](dev_t device) { return RequestBytes(device); });

  std::int64_t size() const { return table_.files; }
  std::int64_t bytes(std::int32_t file) const { return table_.bytes[file]; }

  // `again`: not the descriptor that is kept, for it has failed.
  OpenFile Get(std::int32_t file, bool again = false);

 private:
  using RecentFiles = std::list<std::pair<std::int32_t, OpenFile>>;

  std::string PathOf(std::int32_t file) const;
  OpenFile Open(std::int32_t file);
  void Drop(std::size_t to);  // with the mutex held
  int TryOpen(const std::string& path);

  const FileTable table_;
  const std::size_t most_open_;
  const RequestSize request_size_;
  std::mutex mutex_;
  RecentFiles recent_;  // the last used first
  std::unordered_map<std::int32_t, RecentFiles::iterator> by_file_;
};

}  // namespace io
}  // namespace horovod_opt
