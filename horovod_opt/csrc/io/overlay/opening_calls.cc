// open(), fopen() and their kin.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "horovod_opt/csrc/io/overlay/interposing.h"
#include "horovod_opt/csrc/io/overlay/outputs.h"
#include "horovod_opt/csrc/io/overlay/session.h"

namespace horovod_opt {
namespace io {
namespace {

// Whether the path is of the table or of a new output; then `fd` is what open() returns, and errno.
bool TakeOpen(int dirfd, PassedPath* path, int flags, mode_t mode, int* fd) {
  FileSession* session = FileSession::Get();
  if (session == nullptr) return false;
  const Resolved found = session->Find(dirfd, path);
  if (path->is_output) return TakeOutput(*session, path, flags, mode, fd);
  if (found.kind == Resolved::kElsewhere) return false;
  const bool changes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0 ||
                       (flags & O_TMPFILE) == O_TMPFILE;
  int error = 0;
  if (found.kind == Resolved::kError) {
    error = (flags & O_CREAT) != 0 && found.could_be_made ? EROFS : found.error;
  } else if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
    error = EEXIST;
  } else if (session->table().IsFolder(found.number)) {
    error = (flags & O_TMPFILE) == O_TMPFILE       ? EROFS
            : changes || (flags & O_CREAT) != 0 ? EISDIR
                                                : 0;
  } else if ((flags & O_DIRECTORY) != 0) {
    error = ENOTDIR;
  } else if (changes) {
    error = EROFS;
  }
  if (error == EROFS) FileSession::Count(session->counters().refused);
  if (error == ENOENT) FileSession::Count(session->counters().stat_answered);
  *fd = error == 0 ? session->Open(found.number, flags) : -1;
  if (error != 0) errno = error;
  return true;
}

mode_t ModeOf(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(arguments, mode_t) : 0;
}

// As fopen() reads it; -1 for what it refuses.
int FlagsOf(const char* mode) {
  int flags;
  switch (*mode) {
    case 'r': flags = O_RDONLY; break;
    case 'w': flags = O_WRONLY | O_CREAT | O_TRUNC; break;
    case 'a': flags = O_WRONLY | O_CREAT | O_APPEND; break;
    default: return -1;
  }
  for (const char* c = mode + 1; *c != '\0' && *c != ','; ++c) {
    if (*c == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
    if (*c == 'e') flags |= O_CLOEXEC;
    if (*c == 'x') flags |= O_EXCL;
  }
  return flags;
}

bool TakeFopen(PassedPath* path, const char* mode, FILE** file) {
  const int flags = FlagsOf(mode);
  int fd;
  if (flags < 0 || !TakeOpen(AT_FDCWD, path, flags, 0666, &fd)) return false;
  *file = fd < 0 ? nullptr : fdopen(fd, mode);
  if (*file == nullptr && fd >= 0) close(fd);
  return true;
}

}  // namespace

#define HOROVOD_OPT_OPEN(name)                                              \
  HOROVOD_OPT_INTERPOSE(int, name, const char* given, int flags, ...) {      \
    va_list arguments;                                                      \
    va_start(arguments, flags);                                             \
    const mode_t mode = ModeOf(flags, arguments);                           \
    va_end(arguments);                                                      \
    PassedPath path(given);                                                 \
    int fd;                                                                 \
    if (TakeOpen(AT_FDCWD, &path, flags, mode, &fd)) return fd;             \
    return HOROVOD_OPT_NEXT(name)(path.text, flags, mode);                  \
  }
HOROVOD_OPT_OPEN(open)
HOROVOD_OPT_OPEN(open64)
#undef HOROVOD_OPT_OPEN

#define HOROVOD_OPT_OPEN(name)                                                     \
  HOROVOD_OPT_INTERPOSE(int, name, int dirfd, const char* given, int flags, ...) {  \
    va_list arguments;                                                             \
    va_start(arguments, flags);                                                    \
    const mode_t mode = ModeOf(flags, arguments);                                  \
    va_end(arguments);                                                             \
    PassedPath path(given);                                                        \
    int fd;                                                                        \
    if (TakeOpen(dirfd, &path, flags, mode, &fd)) return fd;                       \
    return HOROVOD_OPT_NEXT(name)(dirfd, path.text, flags, mode);                  \
  }
HOROVOD_OPT_OPEN(openat)
HOROVOD_OPT_OPEN(openat64)
#undef HOROVOD_OPT_OPEN

#define HOROVOD_OPT_OPEN(name)                                        \
  HOROVOD_OPT_INTERPOSE(int, name, const char* given, int flags) {     \
    PassedPath path(given);                                           \
    int fd;                                                           \
    if (TakeOpen(AT_FDCWD, &path, flags, 0, &fd)) return fd;          \
    return HOROVOD_OPT_NEXT(name)(path.text, flags);                  \
  }
HOROVOD_OPT_OPEN(__open_2)
HOROVOD_OPT_OPEN(__open64_2)
#undef HOROVOD_OPT_OPEN

#define HOROVOD_OPT_OPEN(name)                                               \
  HOROVOD_OPT_INTERPOSE(int, name, int dirfd, const char* given, int flags) { \
    PassedPath path(given);                                                  \
    int fd;                                                                  \
    if (TakeOpen(dirfd, &path, flags, 0, &fd)) return fd;                    \
    return HOROVOD_OPT_NEXT(name)(dirfd, path.text, flags);                  \
  }
HOROVOD_OPT_OPEN(__openat_2)
HOROVOD_OPT_OPEN(__openat64_2)
#undef HOROVOD_OPT_OPEN

#define HOROVOD_OPT_OPEN(name)                                                         \
  HOROVOD_OPT_INTERPOSE(int, name, const char* given, mode_t mode) {                    \
    PassedPath path(given);                                                            \
    int fd;                                                                            \
    if (TakeOpen(AT_FDCWD, &path, O_WRONLY | O_CREAT | O_TRUNC, mode, &fd)) return fd; \
    return HOROVOD_OPT_NEXT(name)(path.text, mode);                                    \
  }
HOROVOD_OPT_OPEN(creat)
HOROVOD_OPT_OPEN(creat64)
#undef HOROVOD_OPT_OPEN

#define HOROVOD_OPT_OPEN(name)                                             \
  HOROVOD_OPT_INTERPOSE(FILE*, name, const char* given, const char* mode) { \
    PassedPath path(given);                                                \
    FILE* file;                                                            \
    if (TakeFopen(&path, mode, &file)) return file;                        \
    return HOROVOD_OPT_NEXT(name)(path.text, mode);                        \
  }
HOROVOD_OPT_OPEN(fopen)
HOROVOD_OPT_OPEN(fopen64)
#undef HOROVOD_OPT_OPEN

// libc closes the stream's file and opens another for it: by its place in /proc. Of an output there
// is one description only, which takes the other's place.
#define HOROVOD_OPT_OPEN(name)                                                            \
  HOROVOD_OPT_INTERPOSE(FILE*, name, const char* given, const char* mode, FILE* stream) { \
    PassedPath path(given);                                                               \
    OutputClose before(given == nullptr ? -1 : fileno(stream));                           \
    int fd;                                                                               \
    const int flags = given == nullptr ? -1 : FlagsOf(mode);                              \
    if (flags < 0 || !TakeOpen(AT_FDCWD, &path, flags, 0666, &fd)) {                      \
      FILE* opened = HOROVOD_OPT_NEXT(name)(path.text, mode, stream);                     \
      return before.Done(true) ? opened : nullptr;                                        \
    }                                                                                     \
    if (fd < 0) {                                                                         \
      const int error = errno;                                                            \
      fclose(stream);                                                                     \
      before.Done(true);                                                                  \
      errno = error;                                                                      \
      return nullptr;                                                                     \
    }                                                                                     \
    char self[64] = "/dev/null";                                                          \
    if (!path.is_output) snprintf(self, sizeof self, "/proc/self/fd/%d", fd);             \
    FILE* reopened = HOROVOD_OPT_NEXT(name)(self, mode, stream);                          \
    if (path.is_output && reopened != nullptr) dup2(fd, fileno(reopened));                \
    close(fd);                                                                            \
    return before.Done(true) ? reopened : nullptr;                                        \
  }
HOROVOD_OPT_OPEN(freopen)
HOROVOD_OPT_OPEN(freopen64)
#undef HOROVOD_OPT_OPEN

}  // namespace io
}  // namespace horovod_opt
