// A file that a program opens is memory of its own without a name (a memfd), filled once and then
// sealed: offsets, mmap(), dup(), fork() and its end are the kernel's.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "horovod_opt/csrc/io/files/crc32c.h"
#include "horovod_opt/csrc/io/overlay/session.h"
#include "horovod_opt/csrc/io/overlay/store_connection.h"

namespace horovod_opt {
namespace io {
namespace {

// The table, the number: horovod_opt/io/overlay/contents.py.
constexpr char kNameOf[] = "hvdopt:%08x:%u";
constexpr char kLinkOf[] = "/memfd:hvdopt:%8x:%u (deleted)";
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

int RawOpen(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC));
}

void RawClose(int fd) {
  const int error = errno;
  syscall(SYS_close, fd);
  errno = error;
}

// Files without a name are all of one device.
dev_t DeviceOfMemory() {
  static const dev_t device = [] {
    const int fd = memfd_create("hvdopt", MFD_CLOEXEC);
    struct stat status {};
    if (fd < 0) return static_cast<dev_t>(-1);
    syscall(SYS_fstat, fd, &status);
    RawClose(fd);
    return status.st_dev;
  }();
  return device;
}

}  // namespace

std::int64_t FileSession::NumberOf(int fd) {
  FileSession* session = Get();
  if (session == nullptr || (fd < 0 && fd != AT_FDCWD)) return -1;
  const int error = errno;
  if (fd == AT_FDCWD) {
    const std::int64_t folder = NumberOfWorkingFolder();
    errno = error;
    return folder;
  }
  std::int64_t number = -1;
  struct stat status;
  if (syscall(SYS_fstat, fd, &status) == 0 && status.st_dev == DeviceOfMemory() &&
      status.st_nlink == 0) {
    char link[64], target[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const long length = syscall(SYS_readlinkat, AT_FDCWD, link, target, sizeof target - 1);
    unsigned id, found;
    if (length > 0) {
      target[length] = '\0';
      if (sscanf(target, kLinkOf, &id, &found) == 2 && id == session->table().header().id &&
          found < session->table().header().files) {
        number = found;
      }
    }
  }
  errno = error;
  return number;
}

int FileSession::Open(std::uint32_t number, int flags) {
  const FileEntry& entry = (*table_)[number];
  int fd;
  if (!table_->IsFolder(number) && entry.part == kAtStore) {
    fd = FromStore(number);
    if (fd >= 0) Count(counters_->opens_store);
  } else {
    char name[64];
    snprintf(name, sizeof name, kNameOf, table_->header().id, number);
    fd = Filled(number, name);
    if (fd >= 0 && !table_->IsFolder(number)) Count(counters_->opens_local);
  }
  return fd < 0 ? -1 : Reopened(fd, number, flags);
}

// Read-only, as the program asked for it; without /proc it is the sealed memory itself.
int FileSession::Reopened(int fd, std::uint32_t number, int flags) {
  char self[64];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
  // Of a folder's nothing can be read; nor can a call that nobody intercepts.
  const int kept = table_->IsFolder(number) ? (flags & O_CLOEXEC) | O_PATH
                                            : flags & (O_CLOEXEC | O_NONBLOCK | O_NOATIME);
  const long reopened = syscall(SYS_openat, AT_FDCWD, self, O_RDONLY | kept);
  if (reopened < 0 && errno != ENOENT) {
    RawClose(fd);
    return -1;
  }
  const int result = reopened < 0 ? fd : static_cast<int>(reopened);
  if (reopened >= 0) {
    RawClose(fd);
  } else if ((flags & O_CLOEXEC) == 0) {
    fcntl(fd, F_SETFD, 0);
  }
  // For calls that nobody intercepts.
  fchmod(result, (*table_)[number].mode & 07777);
  const std::int64_t mtime = (*table_)[number].mtime_ns;
  const timespec time{mtime / 1000000000, mtime % 1000000000};
  const timespec times[2] = {time, time};
  syscall(SYS_utimensat, result, nullptr, times, 0);
  return result;
}

int FileSession::Filled(std::uint32_t number, const char* name) {
  const FileEntry& entry = (*table_)[number];
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  const std::size_t size = table_->IsFolder(number) ? 0 : entry.size;
  const auto fail = [&](int error) {
    RawClose(fd);
    errno = error;
    return -1;
  };
  if (size > 0) {
    const int part = RawOpen(table_->PartPath(entry.part), O_RDONLY);
    if (part < 0) {
      const int error = errno;
      char why[PATH_MAX + 128];
      snprintf(why, sizeof why, "its part %s cannot be opened: %s", table_->PartPath(entry.part),
               strerror(error));
      Complain(number, why, "bring the part back, as horovod-opt io stage does");
      return fail(error == EMFILE || error == ENFILE ? error : EIO);
    }
    char piece[32 << 10];
    std::uint32_t crc = 0;
    std::size_t done = 0;
    while (done < size) {
      const long got = syscall(SYS_pread64, part, piece, std::min(sizeof piece, size - done),
                               static_cast<off_t>(entry.offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      crc = Crc32c(crc, piece, got);
      for (long written = 0; written < got;) {
        const long now = syscall(SYS_pwrite64, fd, piece + written, got - written,
                                 static_cast<off_t>(done + written));
        if (now < 0 && errno == EINTR) continue;
        if (now < 0) {
          const int error = errno;
          RawClose(part);
          Complain(number, strerror(error), "more memory for this node's job, or less open at a "
                   "time");
          return fail(error);
        }
        written += now;
      }
      done += got;
    }
    const int error = done < size ? errno : 0;
    RawClose(part);
    Count(counters_->storage_bytes, done);
    if (done < size || crc != entry.crc) {
      char why[PATH_MAX + 128];
      snprintf(why, sizeof why, "its part %s %s", table_->PartPath(entry.part),
               done == size ? "has other bytes there than when it was packed"
               : error != 0 ? strerror(error)
                            : "is cut");
      Complain(number, why, "bring the part again, as horovod-opt io stage does");
      return fail(EIO);
    }
  }
  fcntl(fd, F_ADD_SEALS, kSeals);
  return fd;
}

int FileSession::FromStore(std::uint32_t number) {
  StoreConnection connection;
  int received = -1;
  int error;
  if (connection.Ask(*table_, number)) {
    error = connection.Answer(&received);
  } else if (errno == EMFILE || errno == ENFILE) {
    return -1;
  } else {
    Complain(number, "the store of the job has ended", "start the job again");
    error = EIO;
  }
  if (received < 0) errno = error;
  return received;
}

}  // namespace io
}  // namespace horovod_opt
