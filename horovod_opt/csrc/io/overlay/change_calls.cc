// What would change a file of the table: EROFS, as on a file system that is mounted read-only. What
// programs have written there is changed where it is.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>
#include <utime.h>

#include "horovod_opt/csrc/io/overlay/interposing.h"
#include "horovod_opt/csrc/io/overlay/outputs.h"
#include "horovod_opt/csrc/io/overlay/session.h"

namespace horovod_opt {
namespace io {
namespace {

// Whether the path is of the table; then errno says what a change of what is there ends with.
bool Refuses(int dirfd, PassedPath* path) {
  FileSession* session = FileSession::Get();
  if (session == nullptr) return false;
  const Resolved found = session->Find(dirfd, path);
  if (found.kind == Resolved::kElsewhere) return false;
  errno = found.kind == Resolved::kFile ? EROFS : found.error;
  FileSession::Count(session->counters().refused);
  return true;
}

// The same of what would be made under the path; `there`: what it ends with if that is there.
bool RefusesNew(int dirfd, PassedPath* path, int there = EEXIST) {
  FileSession* session = FileSession::Get();
  if (session == nullptr) return false;
  const Resolved found = session->Find(dirfd, path);
  if (path->is_output) return !MakePackedFolders(session->table(), path);
  if (found.kind == Resolved::kElsewhere) return false;
  errno = found.kind == Resolved::kFile ? there : found.could_be_made ? EROFS : found.error;
  FileSession::Count(session->counters().refused);
  return true;
}

}  // namespace

#define HOROVOD_OPT_CHANGE(name, refuses, dirfd, parameters, arguments)                 \
  HOROVOD_OPT_INTERPOSE(int, name, HOROVOD_OPT_LIST parameters) {                       \
    PassedPath path(given);                                                             \
    if (refuses(dirfd, &path)) return -1;                                               \
    return HOROVOD_OPT_NEXT(name) arguments;                                            \
  }
#define HOROVOD_OPT_LIST(...) __VA_ARGS__

HOROVOD_OPT_CHANGE(unlink, Refuses, AT_FDCWD, (const char* given), (path.text))
HOROVOD_OPT_CHANGE(unlinkat, Refuses, dirfd, (int dirfd, const char* given, int flags),
                   (dirfd, path.text, flags))
HOROVOD_OPT_CHANGE(remove, Refuses, AT_FDCWD, (const char* given), (path.text))
HOROVOD_OPT_CHANGE(rmdir, Refuses, AT_FDCWD, (const char* given), (path.text))
HOROVOD_OPT_CHANGE(truncate, Refuses, AT_FDCWD, (const char* given, off_t size), (path.text, size))
HOROVOD_OPT_CHANGE(truncate64, Refuses, AT_FDCWD, (const char* given, off_t size),
                   (path.text, size))
HOROVOD_OPT_CHANGE(chmod, Refuses, AT_FDCWD, (const char* given, mode_t mode), (path.text, mode))
HOROVOD_OPT_CHANGE(fchmodat, Refuses, dirfd, (int dirfd, const char* given, mode_t mode, int flags),
                   (dirfd, path.text, mode, flags))
HOROVOD_OPT_CHANGE(chown, Refuses, AT_FDCWD, (const char* given, uid_t owner, gid_t group),
                   (path.text, owner, group))
HOROVOD_OPT_CHANGE(lchown, Refuses, AT_FDCWD, (const char* given, uid_t owner, gid_t group),
                   (path.text, owner, group))
HOROVOD_OPT_CHANGE(fchownat, Refuses, dirfd,
                   (int dirfd, const char* given, uid_t owner, gid_t group, int flags),
                   (dirfd, path.text, owner, group, flags))
HOROVOD_OPT_CHANGE(utime, Refuses, AT_FDCWD, (const char* given, const utimbuf* times),
                   (path.text, times))
HOROVOD_OPT_CHANGE(utimes, Refuses, AT_FDCWD, (const char* given, const timeval* times),
                   (path.text, times))
HOROVOD_OPT_CHANGE(lutimes, Refuses, AT_FDCWD, (const char* given, const timeval* times),
                   (path.text, times))
HOROVOD_OPT_CHANGE(utimensat, Refuses, dirfd,
                   (int dirfd, const char* given, const timespec* times, int flags),
                   (dirfd, path.text, times, flags))
HOROVOD_OPT_CHANGE(mkdir, RefusesNew, AT_FDCWD, (const char* given, mode_t mode), (path.text, mode))
HOROVOD_OPT_CHANGE(mkdirat, RefusesNew, dirfd, (int dirfd, const char* given, mode_t mode),
                   (dirfd, path.text, mode))
HOROVOD_OPT_CHANGE(mkfifo, RefusesNew, AT_FDCWD, (const char* given, mode_t mode),
                   (path.text, mode))
HOROVOD_OPT_CHANGE(mknod, RefusesNew, AT_FDCWD, (const char* given, mode_t mode, dev_t device),
                   (path.text, mode, device))
HOROVOD_OPT_CHANGE(symlink, RefusesNew, AT_FDCWD, (const char* target, const char* given),
                   (target, path.text))
HOROVOD_OPT_CHANGE(symlinkat, RefusesNew, dirfd,
                   (const char* target, int dirfd, const char* given), (target, dirfd, path.text))
#undef HOROVOD_OPT_CHANGE
#undef HOROVOD_OPT_LIST

HOROVOD_OPT_INTERPOSE(int, rename, const char* given, const char* given_to) {
  PassedPath path(given), to(given_to);
  if (Refuses(AT_FDCWD, &path) || RefusesNew(AT_FDCWD, &to, EROFS)) return -1;
  return HOROVOD_OPT_NEXT(rename)(path.text, to.text);
}

HOROVOD_OPT_INTERPOSE(int, renameat, int dirfd, const char* given, int to_dirfd,
                      const char* given_to) {
  PassedPath path(given), to(given_to);
  if (Refuses(dirfd, &path) || RefusesNew(to_dirfd, &to, EROFS)) return -1;
  return HOROVOD_OPT_NEXT(renameat)(dirfd, path.text, to_dirfd, to.text);
}

HOROVOD_OPT_INTERPOSE(int, renameat2, int dirfd, const char* given, int to_dirfd,
                      const char* given_to, unsigned flags) {
  PassedPath path(given), to(given_to);
  if (Refuses(dirfd, &path) || RefusesNew(to_dirfd, &to, EROFS)) return -1;
  return HOROVOD_OPT_NEXT(renameat2)(dirfd, path.text, to_dirfd, to.text, flags);
}

HOROVOD_OPT_INTERPOSE(int, link, const char* given, const char* given_to) {
  PassedPath path(given), to(given_to);
  if (Refuses(AT_FDCWD, &path) || RefusesNew(AT_FDCWD, &to)) return -1;
  return HOROVOD_OPT_NEXT(link)(path.text, to.text);
}

HOROVOD_OPT_INTERPOSE(int, linkat, int dirfd, const char* given, int to_dirfd, const char* given_to,
                      int flags) {
  PassedPath path(given), to(given_to);
  if (Refuses(dirfd, &path) || RefusesNew(to_dirfd, &to)) return -1;
  return HOROVOD_OPT_NEXT(linkat)(dirfd, path.text, to_dirfd, to.text, flags);
}

}  // namespace io
}  // namespace horovod_opt
