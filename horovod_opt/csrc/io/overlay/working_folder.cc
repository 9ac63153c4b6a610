// chdir(), fchdir(), getcwd() and their kin. Where the folder is not really there, the process goes
// to one that has been removed, so that a call that nobody intercepts finds nothing. Its name says
// which folder of the table is meant; the kernel keeps it over fork() and exec().
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "horovod_opt/csrc/io/overlay/interposing.h"
#include "horovod_opt/csrc/io/overlay/session.h"

namespace horovod_opt {
namespace io {
namespace {

constexpr const char* kPlaces[] = {"/dev/shm", "/tmp"};  // for a moment
constexpr char kName[] = "/hvdopt:%08x:%u:%d:%u";  // the table, the number, the process, a count
constexpr char kNameOf[] = "/hvdopt:%8x:%u:";
constexpr char kRemoved[] = " (deleted)";

// 0, or -1 and errno.
int GoTo(const FileTable& table, std::uint32_t number) {
  static std::atomic<unsigned> count{0};
  for (const char* place : kPlaces) {
    char path[128];
    const std::size_t length = stpcpy(path, place) - path;
    snprintf(path + length, sizeof path - length, kName, table.header().id, number,
             static_cast<int>(getpid()), count.fetch_add(1, std::memory_order_relaxed));
    if (syscall(SYS_mkdirat, AT_FDCWD, path, 0500) < 0) continue;
    const long went = syscall(SYS_chdir, path);
    const int error = errno;
    syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    errno = error;
    return static_cast<int>(went);
  }
  return -1;
}

// chdir() to a folder of the table: 0, or -1 and errno.
int Enter(std::int64_t number) {
  const FileTable& table = FileSession::Get()->table();
  if (!table.IsFolder(static_cast<std::uint32_t>(number))) {
    errno = ENOTDIR;
    return -1;
  }
  char path[2 * PATH_MAX];
  const std::size_t root = table.Root(0).copy(path, PATH_MAX);
  const std::size_t inside = table.PathOf(number, path + root, PATH_MAX);
  path[root + (inside > PATH_MAX ? 0 : inside)] = '\0';
  if (syscall(SYS_chdir, path) == 0) return 0;
  return GoTo(table, static_cast<std::uint32_t>(number));
}

// The path of the working folder, if that is one of the table that is not really there: its length,
// and the path if there is room; 0 if it is not.
std::size_t WorkingPath(char* path, std::size_t room) {
  FileSession* session = FileSession::Get();
  if (session == nullptr) return 0;
  const std::int64_t number = FileSession::NumberOf(AT_FDCWD);
  if (number < 0) return 0;
  const FileTable& table = session->table();
  const std::string_view root = table.Root(table.header().roots - 1);
  char inside[PATH_MAX];
  const std::size_t length = table.PathOf(static_cast<std::uint32_t>(number), inside, PATH_MAX);
  if (length > PATH_MAX) return 0;
  if (root.size() + length < room) {
    memcpy(path, root.data(), root.size());
    memcpy(path + root.size(), inside, length);
    path[root.size() + length] = '\0';
  }
  return root.size() + length;
}

// Whether it is such a folder; then `result` is what getcwd() returns, with errno.
bool TakeGetcwd(char* buffer, std::size_t size, char** result) {
  const int error = errno;
  char path[2 * PATH_MAX];
  const std::size_t length = WorkingPath(path, sizeof path);
  errno = error;
  if (length == 0) return false;
  *result = nullptr;
  if (buffer != nullptr && size == 0) {
    errno = EINVAL;
  } else if (size != 0 && length + 1 > size) {
    errno = ERANGE;
  } else {
    if (size == 0) size = length + 1;
    *result = buffer != nullptr ? buffer : static_cast<char*>(malloc(size));
    if (*result != nullptr) memcpy(*result, path, length + 1);
  }
  return true;
}

}  // namespace

std::int64_t FileSession::NumberOfWorkingFolder() {
  char target[PATH_MAX];
  const long length =
      syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", target, sizeof target - 1);
  if (length < static_cast<long>(sizeof kRemoved)) return -1;
  target[length] = '\0';
  const char* name = strrchr(target, '/');
  unsigned id, found;
  if (name == nullptr || strcmp(target + length + 1 - sizeof kRemoved, kRemoved) != 0 ||
      sscanf(name, kNameOf, &id, &found) != 2) {
    return -1;
  }
  const FileTable& table = Get()->table();
  return id == table.header().id && found < table.header().files ? found : -1;
}

HOROVOD_OPT_INTERPOSE(int, chdir, const char* given) {
  PassedPath path(given);
  if (FileSession* session = FileSession::Get()) {
    const Resolved found = session->Find(AT_FDCWD, &path);
    if (found.kind == Resolved::kFile) return Enter(found.number);
    if (found.kind == Resolved::kError) {
      errno = found.error;
      return -1;
    }
  }
  return HOROVOD_OPT_NEXT(chdir)(path.text);
}

HOROVOD_OPT_INTERPOSE(int, fchdir, int fd) {
  const std::int64_t number = FileSession::NumberOf(fd);
  return number >= 0 ? Enter(number) : HOROVOD_OPT_NEXT(fchdir)(fd);
}

HOROVOD_OPT_INTERPOSE(char*, getcwd, char* buffer, size_t size) {
  char* result;
  if (TakeGetcwd(buffer, size, &result)) return result;
  return HOROVOD_OPT_NEXT(getcwd)(buffer, size);
}

HOROVOD_OPT_INTERPOSE(char*, __getcwd_chk, char* buffer, size_t size, size_t room) {
  char* result;
  if (size <= room && TakeGetcwd(buffer, size, &result)) return result;
  return HOROVOD_OPT_NEXT(__getcwd_chk)(buffer, size, room);
}

HOROVOD_OPT_INTERPOSE(char*, get_current_dir_name, void) {
  char* result;
  if (TakeGetcwd(nullptr, 0, &result)) return result;
  return HOROVOD_OPT_NEXT(get_current_dir_name)();
}

}  // namespace io
}  // namespace horovod_opt
