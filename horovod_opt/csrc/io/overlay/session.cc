#include "horovod_opt/csrc/io/overlay/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace horovod_opt {
namespace io {
namespace {

constexpr char kVariable[] = "HIO_OVERLAY";

void Say(const char* text, int length) {
  if (length > 0) (void)!syscall(SYS_write, STDERR_FILENO, text, length);
}

}  // namespace

FileSession* FileSession::Get() {
  static FileSession session;
  static const bool is_mapped = [] {
    const char* path = getenv(kVariable);
    if (path == nullptr || *path == '\0') return false;
    if (session.Map(path)) return true;
    char line[256];
    Say(line, snprintf(line, sizeof line,
                       "horovod-opt: %s=%s: %s: this program sees the files of storage alone; "
                       "remedy: start it while the job of horovod-opt io run lasts\n",
                       kVariable, path, strerror(errno)));
    return false;
  }();
  return is_mapped ? &session : nullptr;
}

bool FileSession::Map(const char* path) {
  table_ = FileTable::Map(path);
  if (table_ == nullptr) return false;
  const long fd = syscall(SYS_openat, AT_FDCWD, table_->CountersPath(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  void* page = mmap(nullptr, sizeof(FileCounters), PROT_READ | PROT_WRITE, MAP_SHARED,
                    static_cast<int>(fd), 0);
  syscall(SYS_close, static_cast<int>(fd));
  counters_ = static_cast<FileCounters*>(page);
  return page != MAP_FAILED;
}

Resolved FileSession::Find(int dirfd, PassedPath* path) const {
  const int error = errno;
  const Resolved found = Resolve(*table_, dirfd, path, NumberOf);
  errno = error;
  return found;
}

void FileSession::Complain(std::uint32_t number, const char* why, const char* remedy) {
  char path[2 * PATH_MAX];
  const std::string_view root = table_->Root(0);
  const std::size_t length = table_->PathOf(number, path + root.size(), PATH_MAX);
  memcpy(path, root.data(), root.size());
  path[root.size() + (length > PATH_MAX ? 0 : length)] = '\0';
  Complain(path, why, remedy);
}

void FileSession::Complain(const char* path, const char* why, const char* remedy) {
  constexpr int kMost = 10;
  static std::atomic<int> said{0};
  Count(counters_->failures);
  const int before = said.fetch_add(1, std::memory_order_relaxed);
  if (before >= kMost) return;
  char line[2 * PATH_MAX + 512];
  Say(line, snprintf(line, sizeof line, "horovod-opt: %s: %s; remedy: %s%s\n", path, why, remedy,
                     before == kMost - 1 ? " (this program says no more such)" : ""));
}

}  // namespace io
}  // namespace horovod_opt
