#include "horovod_opt/csrc/io/files/open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <utility>

namespace horovod_opt {
namespace io {
namespace {

constexpr std::int64_t kSecond = 1000000000;  // ns

}  // namespace

std::int64_t RequestBytes(dev_t device, const std::string& folder) {
  if (major(device) != 0) return 0;
  std::ifstream setting(folder + "/0:" + std::to_string(minor(device)) + "/read_ahead_kb");
  std::int64_t kib = 0;
  return setting >> kib ? kib * 1024 : 0;
}

OpenFiles::OpenFiles(FileTable table, std::size_t most_open, RequestSize request_size)
    : table_(std::move(table)), most_open_(most_open), request_size_(std::move(request_size)) {}

OpenFile OpenFiles::Get(std::int32_t file, bool again) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto entry = by_file_.find(file);
    if (entry != by_file_.end() && !again) {
      recent_.splice(recent_.begin(), recent_, entry->second);
      return entry->second->second;
    }
    if (entry != by_file_.end()) {
      recent_.erase(entry->second);
      by_file_.erase(entry);
    }
  }
  OpenFile opened = Open(file);  // takes a millisecond on some file systems: nobody waits for it
  if (opened.status != kGood) return opened;
  std::lock_guard<std::mutex> lock(mutex_);
  if (by_file_.count(file) == 0) {
    Drop(most_open_ - 1);
    recent_.emplace_front(file, opened);
    by_file_[file] = recent_.begin();
  }
  return opened;
}

std::string OpenFiles::PathOf(std::int32_t file) const {
  const std::int64_t begin = file > 0 ? table_.ends[file - 1] : 0;
  const std::string name(table_.names + begin, table_.names + table_.ends[file]);
  return name[0] == '/' ? name : table_.root + "/" + name;
}

OpenFile OpenFiles::Open(std::int32_t file) {
  const int opened = TryOpen(PathOf(file));
  if (opened < 0) return {nullptr, errno};
  auto descriptor = std::make_shared<const Descriptor>(opened);
  struct stat status;
  if (fstat(opened, &status) != 0) return {nullptr, errno};
  if (status.st_size != table_.bytes[file] ||
      status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec != table_.mtime_ns[file]) {
    return {nullptr, kChanged};
  }
  // Extents come in any order: reading ahead of one reads what nobody has asked for.
  posix_fadvise(opened, 0, 0, POSIX_FADV_RANDOM);
  return {std::move(descriptor), kGood, request_size_(status.st_dev)};
}

int OpenFiles::TryOpen(const std::string& path) {
  const auto call = [&] {
    int opened;
    do {
      opened = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
    } while (opened < 0 && errno == EINTR);
    return opened;
  };
  const int opened = call();
  if (opened >= 0 || (errno != EMFILE && errno != ENFILE)) return opened;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Drop(0);  // the process needs its descriptors elsewhere
  }
  return call();
}

void OpenFiles::Drop(std::size_t to) {
  while (recent_.size() > to) {
    by_file_.erase(recent_.back().first);
    recent_.pop_back();
  }
}

}  // namespace io
}  // namespace horovod_opt
