// What would change a file of the table: EROFS, as on a file system that is mounted read-only.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include "horovod_opt/csrc/io/overlay/interposing.h"
#include "horovod_opt/csrc/io/overlay/session.h"

namespace horovod_opt {
namespace io {
namespace {

// Whether the path is of the table; then errno says what a change of what is there ends with.
bool Refuses(int dirfd, const char* path) {
  FileSession* session = FileSession::Get();
  if (session == nullptr) return false;
  const Resolved found = session->Find(dirfd, path);
  if (found.kind == Resolved::kElsewhere) return false;
  errno = found.kind == Resolved::kFile ? EROFS : found.error;
  FileSession::Count(session->counters().refused);
  return true;
}

// The same of what would be made under the path.
bool RefusesNew(int dirfd, const char* path) {
  FileSession* session = FileSession::Get();
  if (session == nullptr) return false;
  const Resolved found = session->Find(dirfd, path);
  if (found.kind == Resolved::kElsewhere) return false;
  errno = found.kind == Resolved::kFile ? EEXIST : found.could_be_made ? EROFS : found.error;
  FileSession::Count(session->counters().refused);
  return true;
}

}  // namespace

#define HOROVOD_OPT_CHANGE(name, refuses, dirfd, parameters, arguments)                 \
  HOROVOD_OPT_INTERPOSE(int, name, HOROVOD_OPT_LIST parameters) {                       \
    if (refuses(dirfd, path)) return -1;                                                \
    return HOROVOD_OPT_NEXT(name) arguments;                                            \
  }
#define HOROVOD_OPT_LIST(...) __VA_ARGS__

HOROVOD_OPT_CHANGE(unlink, Refuses, AT_FDCWD, (const char* path), (path))
HOROVOD_OPT_CHANGE(unlinkat, Refuses, dirfd, (int dirfd, const char* path, int flags),
                   (dirfd, path, flags))
HOROVOD_OPT_CHANGE(remove, Refuses, AT_FDCWD, (const char* path), (path))
HOROVOD_OPT_CHANGE(rmdir, Refuses, AT_FDCWD, (const char* path), (path))
HOROVOD_OPT_CHANGE(truncate, Refuses, AT_FDCWD, (const char* path, off_t size), (path, size))
HOROVOD_OPT_CHANGE(truncate64, Refuses, AT_FDCWD, (const char* path, off_t size), (path, size))
HOROVOD_OPT_CHANGE(chmod, Refuses, AT_FDCWD, (const char* path, mode_t mode), (path, mode))
HOROVOD_OPT_CHANGE(fchmodat, Refuses, dirfd, (int dirfd, const char* path, mode_t mode, int flags),
                   (dirfd, path, mode, flags))
HOROVOD_OPT_CHANGE(chown, Refuses, AT_FDCWD, (const char* path, uid_t owner, gid_t group),
                   (path, owner, group))
HOROVOD_OPT_CHANGE(lchown, Refuses, AT_FDCWD, (const char* path, uid_t owner, gid_t group),
                   (path, owner, group))
HOROVOD_OPT_CHANGE(fchownat, Refuses, dirfd,
                   (int dirfd, const char* path, uid_t owner, gid_t group, int flags),
                   (dirfd, path, owner, group, flags))
HOROVOD_OPT_CHANGE(utime, Refuses, AT_FDCWD, (const char* path, const utimbuf* times),
                   (path, times))
HOROVOD_OPT_CHANGE(utimes, Refuses, AT_FDCWD, (const char* path, const timeval* times),
                   (path, times))
HOROVOD_OPT_CHANGE(lutimes, Refuses, AT_FDCWD, (const char* path, const timeval* times),
                   (path, times))
HOROVOD_OPT_CHANGE(utimensat, Refuses, dirfd,
                   (int dirfd, const char* path, const timespec* times, int flags),
                   (dirfd, path, times, flags))
HOROVOD_OPT_CHANGE(mkdir, RefusesNew, AT_FDCWD, (const char* path, mode_t mode), (path, mode))
HOROVOD_OPT_CHANGE(mkdirat, RefusesNew, dirfd, (int dirfd, const char* path, mode_t mode),
                   (dirfd, path, mode))
HOROVOD_OPT_CHANGE(mkfifo, RefusesNew, AT_FDCWD, (const char* path, mode_t mode), (path, mode))
HOROVOD_OPT_CHANGE(mknod, RefusesNew, AT_FDCWD, (const char* path, mode_t mode, dev_t device),
                   (path, mode, device))
HOROVOD_OPT_CHANGE(symlink, RefusesNew, AT_FDCWD, (const char* target, const char* path),
                   (target, path))
HOROVOD_OPT_CHANGE(symlinkat, RefusesNew, dirfd,
                   (const char* target, int dirfd, const char* path), (target, dirfd, path))
#undef HOROVOD_OPT_CHANGE
#undef HOROVOD_OPT_LIST

HOROVOD_OPT_INTERPOSE(int, rename, const char* path, const char* to) {
  if (Refuses(AT_FDCWD, path) || RefusesNew(AT_FDCWD, to)) return -1;
  return HOROVOD_OPT_NEXT(rename)(path, to);
}

HOROVOD_OPT_INTERPOSE(int, renameat, int dirfd, const char* path, int to_dirfd, const char* to) {
  if (Refuses(dirfd, path) || RefusesNew(to_dirfd, to)) return -1;
  return HOROVOD_OPT_NEXT(renameat)(dirfd, path, to_dirfd, to);
}

HOROVOD_OPT_INTERPOSE(int, renameat2, int dirfd, const char* path, int to_dirfd, const char* to,
                      unsigned flags) {
  if (Refuses(dirfd, path) || RefusesNew(to_dirfd, to)) return -1;
  return HOROVOD_OPT_NEXT(renameat2)(dirfd, path, to_dirfd, to, flags);
}

HOROVOD_OPT_INTERPOSE(int, link, const char* path, const char* to) {
  if (Refuses(AT_FDCWD, path) || RefusesNew(AT_FDCWD, to)) return -1;
  return HOROVOD_OPT_NEXT(link)(path, to);
}

HOROVOD_OPT_INTERPOSE(int, linkat, int dirfd, const char* path, int to_dirfd, const char* to,
                      int flags) {
  if (Refuses(dirfd, path) || RefusesNew(to_dirfd, to)) return -1;
  return HOROVOD_OPT_NEXT(linkat)(dirfd, path, to_dirfd, to, flags);
}

}  // namespace io
}  // namespace horovod_opt
