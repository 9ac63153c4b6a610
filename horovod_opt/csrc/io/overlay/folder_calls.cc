// opendir(), readdir(), scandir(), glob() and their kin.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <new>

#include "horovod_opt/csrc/io/overlay/interposing.h"
#include "horovod_opt/csrc/io/overlay/outputs.h"
#include "horovod_opt/csrc/io/overlay/session.h"

namespace horovod_opt {
namespace io {
namespace {

static_assert(sizeof(dirent) == sizeof(dirent64), "one function for both");

// libc's DIR begins with its descriptor, which is not negative.
constexpr std::uint64_t kMagic = 0xf01de2f1f01de2f1;

// What opendir() gives for a folder of the table.
struct FolderStream {
  std::uint64_t magic = kMagic;
  std::uint32_t folder = 0;
  long place = 0;
  int fd = -1;  // that fdopendir() was given, or dirfd() has made
  DIR* outputs = nullptr;  // what programs have written there, behind the table's entries
  dirent entry;
};

FolderStream* StreamOf(DIR* stream) {
  auto* folder = reinterpret_cast<FolderStream*>(stream);
  return folder != nullptr && folder->magic == kMagic ? folder : nullptr;
}

DIR* NewStream(FileSession& session, std::uint32_t folder, int fd) {
  auto* stream = new (std::nothrow) FolderStream;
  if (stream == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  stream->folder = folder;
  stream->fd = fd;
  FileSession::Count(session.counters().folders_listed);
  return reinterpret_cast<DIR*>(stream);
}

void Delete(FolderStream* stream) {
  if (stream->outputs != nullptr) closedir(stream->outputs);
  stream->magic = 0;
  delete stream;
}

bool TakeOpendir(PassedPath* path, DIR** stream) {
  FileSession* session = FileSession::Get();
  if (session == nullptr) return false;
  const Resolved found = session->Find(AT_FDCWD, path);
  if (found.kind == Resolved::kElsewhere) return false;
  *stream = nullptr;
  if (found.kind == Resolved::kError) {
    errno = found.error;
  } else if (!session->table().IsFolder(found.number)) {
    errno = ENOTDIR;
  } else {
    *stream = NewStream(*session, found.number, -1);
  }
  return true;
}

// The next one of what programs have written; hidden are the table's own folders there, and what is
// not complete.
dirent* NextOutput(FolderStream& stream) {
  const FileTable& table = FileSession::Get()->table();
  if (*table.OutputsPath() == '\0') return nullptr;
  if (stream.outputs == nullptr) {
    char path[2 * PATH_MAX];
    const std::size_t root = stpcpy(path, table.OutputsPath()) - path;
    const std::size_t inside = table.PathOf(stream.folder, path + root, PATH_MAX);
    path[root + (inside > PATH_MAX ? 0 : inside)] = '\0';
    const int error = errno;
    stream.outputs = opendir(path);
    if (stream.outputs == nullptr) {
      if (errno == ENOENT || errno == ENOTDIR) errno = error;
      return nullptr;
    }
  }
  while (dirent* entry = readdir(stream.outputs)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && table.Find(stream.folder, name) < 0 &&
        name.compare(0, strlen(kOutputDraft), kOutputDraft) != 0) {
      ++stream.place;
      return entry;
    }
  }
  return nullptr;
}

void Seek(FolderStream& stream, long place) {
  if (stream.outputs != nullptr) rewinddir(stream.outputs);
  const long packed = FileSession::Get()->table()[stream.folder].count + 2;
  stream.place = place < packed ? place : packed;
  while (stream.place < place && NextOutput(stream) != nullptr) {
  }
}

// The entry number `place`: ".", "..", then the table's, then others. What is above the table is
// none of its entries: there need not be such a folder.
dirent* EntryAt(FolderStream& stream) {
  const FileTable& table = FileSession::Get()->table();
  const FileEntry& folder = table[stream.folder];
  if (stream.place == 1 && stream.folder == 0) ++stream.place;
  if (stream.place >= static_cast<long>(folder.count) + 2) return NextOutput(stream);
  std::uint32_t number = stream.folder;
  std::string_view name = stream.place == 0 ? "." : "..";
  if (stream.place == 1) number = folder.parent;
  if (stream.place >= 2) {
    number = folder.first + static_cast<std::uint32_t>(stream.place - 2);
    name = table.Name(number);
  }
  dirent& entry = stream.entry;
  entry.d_ino = number + 1;
  entry.d_off = ++stream.place;
  entry.d_type = table.IsFolder(number) ? DT_DIR : DT_REG;
  entry.d_reclen = sizeof entry;
  const std::size_t length = name.copy(entry.d_name, sizeof entry.d_name - 1);
  entry.d_name[length] = '\0';
  return &entry;
}

void FreeList(dirent** list, int length) {
  for (int i = 0; i < length; ++i) free(list[i]);
  free(list);
}

// As scandir() of a folder of the table.
int Scan(DIR* stream, dirent*** list, int (*filter)(const dirent*),
         int (*compare)(const dirent**, const dirent**)) {
  dirent** found = nullptr;
  int length = 0, room = 0;
  while (const dirent* entry = EntryAt(*StreamOf(stream))) {
    if (filter != nullptr && filter(entry) == 0) continue;
    if (length == room) {
      room = room == 0 ? 64 : 2 * room;
      auto** larger = static_cast<dirent**>(realloc(found, room * sizeof *found));
      if (larger == nullptr) {
        FreeList(found, length);
        return -1;
      }
      found = larger;
    }
    found[length] = static_cast<dirent*>(malloc(sizeof *entry));
    if (found[length] == nullptr) {
      FreeList(found, length);
      return -1;
    }
    memcpy(found[length++], entry, sizeof *entry);
  }
  if (compare != nullptr && length > 0) {
    qsort(found, length, sizeof *found,
          reinterpret_cast<int (*)(const void*, const void*)>(compare));
  }
  *list = found;
  return length;
}

}  // namespace

HOROVOD_OPT_INTERPOSE(DIR*, opendir, const char* given) {
  PassedPath path(given);
  DIR* stream;
  if (TakeOpendir(&path, &stream)) return stream;
  return HOROVOD_OPT_NEXT(opendir)(path.text);
}

HOROVOD_OPT_INTERPOSE(DIR*, fdopendir, int fd) {
  const std::int64_t number = FileSession::NumberOf(fd);
  if (number >= 0 && FileSession::Get()->table().IsFolder(static_cast<std::uint32_t>(number))) {
    return NewStream(*FileSession::Get(), static_cast<std::uint32_t>(number), fd);
  }
  return HOROVOD_OPT_NEXT(fdopendir)(fd);
}

#define HOROVOD_OPT_READDIR(name)                                          \
  HOROVOD_OPT_INTERPOSE(dirent*, name, DIR* stream) {                      \
    if (FolderStream* folder = StreamOf(stream)) return EntryAt(*folder);  \
    return HOROVOD_OPT_NEXT(name)(stream);                                 \
  }
HOROVOD_OPT_READDIR(readdir)
HOROVOD_OPT_READDIR(readdir64)
#undef HOROVOD_OPT_READDIR

#define HOROVOD_OPT_READDIR(name)                                                      \
  HOROVOD_OPT_INTERPOSE(int, name, DIR* stream, dirent* entry, dirent** result) {      \
    if (FolderStream* folder = StreamOf(stream)) {                                     \
      const dirent* next = EntryAt(*folder);                                           \
      if (next != nullptr) memcpy(entry, next, sizeof *entry);                         \
      *result = next != nullptr ? entry : nullptr;                                     \
      return 0;                                                                        \
    }                                                                                  \
    return HOROVOD_OPT_NEXT(name)(stream, entry, result);                              \
  }
HOROVOD_OPT_READDIR(readdir_r)
HOROVOD_OPT_READDIR(readdir64_r)
#undef HOROVOD_OPT_READDIR

HOROVOD_OPT_INTERPOSE(int, closedir, DIR* stream) {
  FolderStream* folder = StreamOf(stream);
  if (folder == nullptr) return HOROVOD_OPT_NEXT(closedir)(stream);
  if (folder->fd >= 0) close(folder->fd);
  Delete(folder);
  return 0;
}

HOROVOD_OPT_INTERPOSE(void, rewinddir, DIR* stream) {
  if (FolderStream* folder = StreamOf(stream)) {
    Seek(*folder, 0);
    return;
  }
  HOROVOD_OPT_NEXT(rewinddir)(stream);
}

HOROVOD_OPT_INTERPOSE(long, telldir, DIR* stream) {
  if (const FolderStream* folder = StreamOf(stream)) return folder->place;
  return HOROVOD_OPT_NEXT(telldir)(stream);
}

HOROVOD_OPT_INTERPOSE(void, seekdir, DIR* stream, long place) {
  if (FolderStream* folder = StreamOf(stream)) {
    Seek(*folder, place < 0 ? 0 : place);
    return;
  }
  HOROVOD_OPT_NEXT(seekdir)(stream, place);
}

HOROVOD_OPT_INTERPOSE(int, dirfd, DIR* stream) {
  FolderStream* folder = StreamOf(stream);
  if (folder == nullptr) return HOROVOD_OPT_NEXT(dirfd)(stream);
  if (folder->fd < 0) folder->fd = FileSession::Get()->Open(folder->folder, O_CLOEXEC);
  return folder->fd;
}

#define HOROVOD_OPT_SCANDIR(name)                                                          \
  HOROVOD_OPT_INTERPOSE(int, name, const char* given, dirent*** list,                      \
                        int (*filter)(const dirent*),                                      \
                        int (*compare)(const dirent**, const dirent**)) {                  \
    PassedPath path(given);                                                                \
    DIR* stream;                                                                           \
    if (!TakeOpendir(&path, &stream)) {                                                    \
      return HOROVOD_OPT_NEXT(name)(path.text, list, filter, compare);                     \
    }                                                                                      \
    if (stream == nullptr) return -1;                                                      \
    const int length = Scan(stream, list, filter, compare);                                \
    Delete(StreamOf(stream));                                                              \
    return length;                                                                         \
  }
HOROVOD_OPT_SCANDIR(scandir)
HOROVOD_OPT_SCANDIR(scandir64)
#undef HOROVOD_OPT_SCANDIR

// libc's own looks at folders by calls of its own, unless it is told others.
#define HOROVOD_OPT_GLOB(name)                                                            \
  HOROVOD_OPT_INTERPOSE(int, name, const char* pattern, int flags,                        \
                        int (*on_error)(const char*, int), glob_t* found) {               \
    if (FileSession::Get() == nullptr || (flags & GLOB_ALTDIRFUNC) != 0) {                \
      return HOROVOD_OPT_NEXT(name)(pattern, flags, on_error, found);                     \
    }                                                                                     \
    found->gl_opendir = [](const char* path) { return static_cast<void*>(opendir(path)); }; \
    found->gl_readdir = [](void* stream) { return readdir(static_cast<DIR*>(stream)); };  \
    found->gl_closedir = [](void* stream) { closedir(static_cast<DIR*>(stream)); };       \
    found->gl_stat = [](const char* path, struct stat* status) { return stat(path, status); }; \
    found->gl_lstat = [](const char* path, struct stat* status) { return lstat(path, status); }; \
    const int result =                                                                    \
        HOROVOD_OPT_NEXT(name)(pattern, flags | GLOB_ALTDIRFUNC, on_error, found);        \
    found->gl_flags &= ~GLOB_ALTDIRFUNC;                                                  \
    return result;                                                                        \
  }
HOROVOD_OPT_GLOB(glob)
HOROVOD_OPT_GLOB(glob64)
#undef HOROVOD_OPT_GLOB

}  // namespace io
}  // namespace horovod_opt
