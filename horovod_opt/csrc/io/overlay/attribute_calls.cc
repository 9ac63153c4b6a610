// stat(), access(), realpath() and their kin.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "horovod_opt/csrc/io/overlay/interposing.h"
#include "horovod_opt/csrc/io/overlay/outputs.h"
#include "horovod_opt/csrc/io/overlay/session.h"

namespace horovod_opt {
namespace io {
namespace {

static_assert(sizeof(struct stat) == sizeof(struct stat64), "one function for both");

// Whether the path, or with AT_EMPTY_PATH the descriptor, is of the table; with errno if it is not
// there.
bool Take(int dirfd, PassedPath* path, int flags, FileSession** session, Resolved* found) {
  *session = FileSession::Get();
  if (*session == nullptr) return false;
  if ((flags & AT_EMPTY_PATH) != 0 && (path->text == nullptr || *path->text == '\0')) {
    const std::int64_t number = FileSession::NumberOf(dirfd);
    if (number < 0) return false;
    found->kind = Resolved::kFile;
    found->number = static_cast<std::uint32_t>(number);
  } else {
    *found = (*session)->Find(dirfd, path);
  }
  if (found->kind == Resolved::kElsewhere) return false;
  FileSession::Count((*session)->counters().stat_answered);
  if (found->kind == Resolved::kError) errno = found->error;
  return true;
}

void Fill(const FileTable& table, std::uint32_t number, struct stat* status) {
  const FileEntry& entry = table[number];
  memset(status, 0, sizeof *status);
  status->st_dev = table.header().device;
  status->st_ino = number + 1;
  status->st_mode = entry.mode;
  status->st_nlink = 1;
  status->st_uid = table.header().uid;
  status->st_gid = table.header().gid;
  status->st_size = static_cast<off_t>(entry.size);
  status->st_blksize = 4096;
  status->st_blocks = static_cast<blkcnt_t>((entry.size + 511) / 512);
  status->st_mtim.tv_sec = entry.mtime_ns / 1000000000;
  status->st_mtim.tv_nsec = entry.mtime_ns % 1000000000;
  status->st_atim = status->st_ctim = status->st_mtim;
}

void Fill(const FileTable& table, std::uint32_t number, struct statx* status) {
  struct stat plain;
  Fill(table, number, &plain);
  memset(status, 0, sizeof *status);
  status->stx_mask = STATX_BASIC_STATS;
  status->stx_blksize = 4096;
  status->stx_nlink = 1;
  status->stx_uid = plain.st_uid;
  status->stx_gid = plain.st_gid;
  status->stx_mode = static_cast<std::uint16_t>(plain.st_mode);
  status->stx_ino = plain.st_ino;
  status->stx_size = static_cast<std::uint64_t>(plain.st_size);
  status->stx_blocks = static_cast<std::uint64_t>(plain.st_blocks);
  status->stx_mtime.tv_sec = plain.st_mtim.tv_sec;
  status->stx_mtime.tv_nsec = static_cast<std::uint32_t>(plain.st_mtim.tv_nsec);
  status->stx_atime = status->stx_ctime = status->stx_mtime;
  status->stx_dev_major = major(plain.st_dev);
  status->stx_dev_minor = minor(plain.st_dev);
}

// Of a file that this process has open and that has no name yet.
long FillDraft(int fd, struct stat* status) {
  const long result = syscall(SYS_fstat, fd, status);
  status->st_nlink = 1;
  return result;
}

long FillDraft(int fd, struct statx* status) {
  const long result = syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, status);
  status->stx_nlink = 1;
  return result;
}

template <class Status>
bool TakeStat(int dirfd, PassedPath* path, int flags, Status* status, int* result) {
  FileSession* session;
  Resolved found;
  if (!Take(dirfd, path, flags, &session, &found)) {
    const int draft = DescriptorOfDraft(path);
    if (draft < 0) return false;
    *result = static_cast<int>(FillDraft(draft, status));
    return true;
  }
  *result = found.kind == Resolved::kFile ? 0 : -1;
  if (*result == 0) Fill(session->table(), found.number, status);
  return true;
}

bool TakeAccess(int dirfd, PassedPath* path, int mode, int* result) {
  FileSession* session;
  Resolved found;
  *result = 0;
  if (!Take(dirfd, path, 0, &session, &found)) return DescriptorOfDraft(path) >= 0;
  *result = -1;
  if (found.kind == Resolved::kError) return true;
  const FileTable& table = session->table();
  const bool can_be_written = *table.OutputsPath() != '\0' && table.IsFolder(found.number);
  if ((mode & W_OK) != 0 && !can_be_written) {
    errno = EROFS;
  } else if ((mode & X_OK) != 0 && (table[found.number].mode & 0111) == 0) {
    errno = EACCES;
  } else {
    *result = 0;
  }
  return true;
}

// Nothing in the table is a link.
bool TakeReadlink(int dirfd, PassedPath* path) {
  FileSession* session;
  Resolved found;
  if (!Take(dirfd, path, 0, &session, &found)) return false;
  if (found.kind == Resolved::kFile) errno = EINVAL;
  return true;
}

// `buffer`: of PATH_MAX bytes, or nullptr for one that malloc() gives.
bool TakeRealpath(PassedPath* path, char* buffer, char** result) {
  FileSession* session;
  Resolved found;
  if (!Take(AT_FDCWD, path, 0, &session, &found)) return false;
  *result = nullptr;
  if (found.kind == Resolved::kError) return true;
  const FileTable& table = session->table();
  const std::string_view root = table.Root(table.header().roots - 1);
  char inside[PATH_MAX];
  const std::size_t length = table.PathOf(found.number, inside, sizeof inside);
  if (root.size() + length >= PATH_MAX) {
    errno = ENAMETOOLONG;
    return true;
  }
  char* out = buffer != nullptr ? buffer : static_cast<char*>(malloc(root.size() + length + 1));
  if (out == nullptr) return true;
  memcpy(out, root.data(), root.size());
  memcpy(out + root.size(), inside, length);
  out[root.size() + length] = '\0';
  *result = out;
  return true;
}

}  // namespace

#define HOROVOD_OPT_STAT(name)                                               \
  HOROVOD_OPT_INTERPOSE(int, name, const char* given, struct stat* status) { \
    PassedPath path(given);                                                  \
    int result;                                                              \
    if (TakeStat(AT_FDCWD, &path, 0, status, &result)) return result;        \
    return HOROVOD_OPT_NEXT(name)(path.text, status);                        \
  }
HOROVOD_OPT_STAT(stat)
HOROVOD_OPT_STAT(stat64)
HOROVOD_OPT_STAT(lstat)
HOROVOD_OPT_STAT(lstat64)
#undef HOROVOD_OPT_STAT

#define HOROVOD_OPT_STAT(name)                                                            \
  HOROVOD_OPT_INTERPOSE(int, name, int version, const char* given, struct stat* status) { \
    PassedPath path(given);                                                               \
    int result;                                                                           \
    if (TakeStat(AT_FDCWD, &path, 0, status, &result)) return result;                     \
    return HOROVOD_OPT_NEXT(name)(version, path.text, status);                            \
  }
HOROVOD_OPT_STAT(__xstat)
HOROVOD_OPT_STAT(__xstat64)
HOROVOD_OPT_STAT(__lxstat)
HOROVOD_OPT_STAT(__lxstat64)
#undef HOROVOD_OPT_STAT

#define HOROVOD_OPT_STAT(name)                                         \
  HOROVOD_OPT_INTERPOSE(int, name, int fd, struct stat* status) {      \
    int result;                                                        \
    PassedPath none("");                                               \
    if (TakeStat(fd, &none, AT_EMPTY_PATH, status, &result)) return result; \
    return HOROVOD_OPT_NEXT(name)(fd, status);                         \
  }
HOROVOD_OPT_STAT(fstat)
HOROVOD_OPT_STAT(fstat64)
#undef HOROVOD_OPT_STAT

#define HOROVOD_OPT_STAT(name)                                                   \
  HOROVOD_OPT_INTERPOSE(int, name, int version, int fd, struct stat* status) {   \
    int result;                                                                  \
    PassedPath none("");                                                         \
    if (TakeStat(fd, &none, AT_EMPTY_PATH, status, &result)) return result;      \
    return HOROVOD_OPT_NEXT(name)(version, fd, status);                          \
  }
HOROVOD_OPT_STAT(__fxstat)
HOROVOD_OPT_STAT(__fxstat64)
#undef HOROVOD_OPT_STAT

#define HOROVOD_OPT_STAT(name)                                                        \
  HOROVOD_OPT_INTERPOSE(int, name, int dirfd, const char* given, struct stat* status, \
                        int flags) {                                                  \
    PassedPath path(given);                                                           \
    int result;                                                                       \
    if (TakeStat(dirfd, &path, flags, status, &result)) return result;                \
    return HOROVOD_OPT_NEXT(name)(dirfd, path.text, status, flags);                   \
  }
HOROVOD_OPT_STAT(fstatat)
HOROVOD_OPT_STAT(fstatat64)
#undef HOROVOD_OPT_STAT

#define HOROVOD_OPT_STAT(name)                                                \
  HOROVOD_OPT_INTERPOSE(int, name, int version, int dirfd, const char* given, \
                        struct stat* status, int flags) {                     \
    PassedPath path(given);                                                   \
    int result;                                                               \
    if (TakeStat(dirfd, &path, flags, status, &result)) return result;        \
    return HOROVOD_OPT_NEXT(name)(version, dirfd, path.text, status, flags);  \
  }
HOROVOD_OPT_STAT(__fxstatat)
HOROVOD_OPT_STAT(__fxstatat64)
#undef HOROVOD_OPT_STAT

HOROVOD_OPT_INTERPOSE(int, statx, int dirfd, const char* given, int flags, unsigned mask,
                      struct statx* status) {
  PassedPath path(given);
  int result;
  if (TakeStat(dirfd, &path, flags, status, &result)) return result;
  return HOROVOD_OPT_NEXT(statx)(dirfd, path.text, flags, mask, status);
}

#define HOROVOD_OPT_ACCESS(name)                                   \
  HOROVOD_OPT_INTERPOSE(int, name, const char* given, int mode) {  \
    PassedPath path(given);                                        \
    int result;                                                    \
    if (TakeAccess(AT_FDCWD, &path, mode, &result)) return result; \
    return HOROVOD_OPT_NEXT(name)(path.text, mode);                \
  }
HOROVOD_OPT_ACCESS(access)
HOROVOD_OPT_ACCESS(eaccess)
HOROVOD_OPT_ACCESS(euidaccess)
#undef HOROVOD_OPT_ACCESS

HOROVOD_OPT_INTERPOSE(int, faccessat, int dirfd, const char* given, int mode, int flags) {
  PassedPath path(given);
  int result;
  if (TakeAccess(dirfd, &path, mode, &result)) return result;
  return HOROVOD_OPT_NEXT(faccessat)(dirfd, path.text, mode, flags);
}

HOROVOD_OPT_INTERPOSE(ssize_t, readlink, const char* given, char* buffer, size_t size) {
  PassedPath path(given);
  if (TakeReadlink(AT_FDCWD, &path)) return -1;
  return HOROVOD_OPT_NEXT(readlink)(path.text, buffer, size);
}

HOROVOD_OPT_INTERPOSE(ssize_t, __readlink_chk, const char* given, char* buffer, size_t size,
                      size_t room) {
  PassedPath path(given);
  if (TakeReadlink(AT_FDCWD, &path)) return -1;
  return HOROVOD_OPT_NEXT(__readlink_chk)(path.text, buffer, size, room);
}

HOROVOD_OPT_INTERPOSE(ssize_t, readlinkat, int dirfd, const char* given, char* buffer,
                      size_t size) {
  PassedPath path(given);
  if (TakeReadlink(dirfd, &path)) return -1;
  return HOROVOD_OPT_NEXT(readlinkat)(dirfd, path.text, buffer, size);
}

HOROVOD_OPT_INTERPOSE(ssize_t, __readlinkat_chk, int dirfd, const char* given, char* buffer,
                      size_t size, size_t room) {
  PassedPath path(given);
  if (TakeReadlink(dirfd, &path)) return -1;
  return HOROVOD_OPT_NEXT(__readlinkat_chk)(dirfd, path.text, buffer, size, room);
}

HOROVOD_OPT_INTERPOSE(char*, realpath, const char* given, char* buffer) {
  PassedPath path(given);
  char* result;
  if (TakeRealpath(&path, buffer, &result)) return result;
  return HOROVOD_OPT_NEXT(realpath)(path.text, buffer);
}

HOROVOD_OPT_INTERPOSE(char*, __realpath_chk, const char* given, char* buffer, size_t room) {
  PassedPath path(given);
  char* result;
  if (room >= PATH_MAX && TakeRealpath(&path, buffer, &result)) return result;
  return HOROVOD_OPT_NEXT(__realpath_chk)(path.text, buffer, room);
}

HOROVOD_OPT_INTERPOSE(char*, canonicalize_file_name, const char* given) {
  PassedPath path(given);
  char* result;
  if (TakeRealpath(&path, nullptr, &result)) return result;
  return HOROVOD_OPT_NEXT(canonicalize_file_name)(path.text);
}

// Files of the table have no extended attributes.
#define HOROVOD_OPT_ATTRIBUTE(name)                                                           \
  HOROVOD_OPT_INTERPOSE(ssize_t, name, const char* given, const char* attribute, void* value, \
                        size_t size) {                                                        \
    PassedPath path(given);                                                                   \
    FileSession* session;                                                                     \
    Resolved found;                                                                           \
    if (Take(AT_FDCWD, &path, 0, &session, &found)) {                                         \
      if (found.kind == Resolved::kFile) errno = ENODATA;                                     \
      return -1;                                                                              \
    }                                                                                         \
    return HOROVOD_OPT_NEXT(name)(path.text, attribute, value, size);                         \
  }
HOROVOD_OPT_ATTRIBUTE(getxattr)
HOROVOD_OPT_ATTRIBUTE(lgetxattr)
#undef HOROVOD_OPT_ATTRIBUTE

#define HOROVOD_OPT_ATTRIBUTE(name)                                                   \
  HOROVOD_OPT_INTERPOSE(ssize_t, name, const char* given, char* names, size_t size) { \
    PassedPath path(given);                                                           \
    FileSession* session;                                                             \
    Resolved found;                                                                   \
    if (Take(AT_FDCWD, &path, 0, &session, &found)) {                                 \
      return found.kind == Resolved::kFile ? 0 : -1;                                  \
    }                                                                                 \
    return HOROVOD_OPT_NEXT(name)(path.text, names, size);                            \
  }
HOROVOD_OPT_ATTRIBUTE(listxattr)
HOROVOD_OPT_ATTRIBUTE(llistxattr)
#undef HOROVOD_OPT_ATTRIBUTE

}  // namespace io
}  // namespace horovod_opt
