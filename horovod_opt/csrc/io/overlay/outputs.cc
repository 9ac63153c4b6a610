#include "horovod_opt/csrc/io/overlay/outputs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string_view>

namespace horovod_opt {
namespace io {
namespace {

// What this process has made and not closed, as far as there is room: libraries as HDF5 look for
// the file by its path when they have opened it.
struct Draft {
  std::size_t path;  // its hash
  ino_t inode;
  int fd;
};
constexpr unsigned kDrafts = 64;
Draft drafts[kDrafts];
std::atomic<unsigned> drafts_made{0};
std::atomic_flag drafts_lock = ATOMIC_FLAG_INIT;

void Lock() {
  while (drafts_lock.test_and_set(std::memory_order_acquire)) {
  }
}
void Unlock() { drafts_lock.clear(std::memory_order_release); }

void Remember(const char* path, int fd) {
  struct stat status;
  if (syscall(SYS_fstat, fd, &status) < 0) return;
  Lock();
  drafts[drafts_made.fetch_add(1, std::memory_order_relaxed) % kDrafts] = {
      std::hash<std::string_view>()(path), status.st_ino, fd};
  Unlock();
}

// Calls `with` with each descriptor of this process, but the one that it is found by.
template <class With>
void WithDescriptors(const With& with) {
  const int list = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
                                            O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (list < 0) return;
  alignas(dirent64) char entries[4096];
  long size;
  while ((size = syscall(SYS_getdents64, list, entries, sizeof entries)) > 0) {
    for (long at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      const int fd = atoi(entry->d_name);
      if (entry->d_name[0] != '.' && fd != list) with(fd);
    }
  }
  syscall(SYS_close, list);
}

std::atomic<bool> has_mapped{false};  // outputs that were closed then

bool HasDescriptor(unsigned long inode) {
  bool found = false;
  WithDescriptors([&](int fd) {
    struct stat status;
    found |= syscall(SYS_fstat, fd, &status) == 0 && status.st_ino == inode &&
             (syscall(SYS_fcntl, fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
  });
  return found;
}

// Whether it is mapped so that what is written there is written to the file.
bool IsMapped(unsigned long inode) {
  const int maps = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/maps",
                                            O_RDONLY | O_CLOEXEC));
  if (maps < 0) return false;
  char lines[16 << 10];
  std::size_t filled = 0;
  bool found = false;
  long got;
  while ((got = syscall(SYS_read, maps, lines + filled, sizeof lines - 1 - filled)) > 0) {
    filled += got;
    lines[filled] = '\0';
    char* line = lines;
    while (char* end = strchr(line, '\n')) {
      char kind[8];
      unsigned long number;
      found |= sscanf(line, "%*s %7s %*s %*s %lu", kind, &number) == 2 && number == inode &&
               kind[1] == 'w' && kind[3] == 's';
      line = end + 1;
    }
    filled -= line - lines;
    memmove(lines, line, filled);
  }
  syscall(SYS_close, maps);
  return found;
}

bool IsOutput(FileSession* session, int fd, unsigned long* inode) {
  if (session == nullptr || fd < 0 || *session->table().OutputsPath() == '\0') return false;
  const FileTableHeader& header = session->table().header();
  struct stat status;
  if (syscall(SYS_fstat, fd, &status) < 0 || !S_ISREG(status.st_mode) ||
      status.st_dev != header.outputs_device) {
    return false;
  }
  *inode = status.st_ino;
  const long flags = syscall(SYS_fcntl, fd, F_GETFL);
  if (flags < 0 || (flags & O_PATH) != 0 || (flags & O_ACCMODE) == O_RDONLY) return false;
  if (header.has_unnamed != 0) return status.st_nlink == 0;
  char link[64], target[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, target, sizeof target - 1);
  if (length < 0) return false;
  target[length] = '\0';
  return strstr(target, kOutputDraft) != nullptr;
}

// A file of the path's file system: with no name, or with a hidden one in the outputs' folder.
int OpenDraft(const FileTable& table, const char* path, int flags, mode_t mode) {
  static std::atomic<unsigned> count{0};
  char draft[PATH_MAX + 64];
  snprintf(draft, sizeof draft, "%.*s", static_cast<int>(strrchr(path, '/') - path), path);
  const int kept = flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW);
  if (table.header().has_unnamed != 0) {
    return static_cast<int>(syscall(SYS_openat, AT_FDCWD, draft, kept | O_TMPFILE, mode));
  }
  struct stat folder;
  if (syscall(SYS_newfstatat, AT_FDCWD, draft, &folder, 0) < 0) return -1;
  if (!S_ISDIR(folder.st_mode)) {
    errno = ENOTDIR;
    return -1;
  }
  if (syscall(SYS_faccessat, AT_FDCWD, draft, W_OK | X_OK) < 0) return -1;
  snprintf(draft, sizeof draft, "%s/%s%08x-%d-%u", table.OutputsPath(), kOutputDraft,
           table.header().id, static_cast<int>(getpid()),
           count.fetch_add(1, std::memory_order_relaxed));
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, draft, kept | O_CREAT | O_EXCL, mode));
}

// What a program hears where the store has answered or not.
int ErrorOf(FileSession* session, const char* path, int error) {
  if (error != ECONNRESET && error != EPIPE && error != ECONNREFUSED) return error;
  session->Complain(path, "not kept: the store of the job has ended", "start the job again");
  return EIO;
}

}  // namespace

bool MakePackedFolders(const FileTable& table, const PassedPath* path) {
  const std::size_t outputs = strlen(table.OutputsPath());
  char folder[PATH_MAX];
  for (std::size_t end = outputs + 1; end <= path->packed; ++end) {
    if (end < path->packed && path->text[end] != '/') continue;
    memcpy(folder, path->text, end);
    folder[end] = '\0';
    if (syscall(SYS_mkdirat, AT_FDCWD, folder, 0777) < 0 && errno != EEXIST) return false;
  }
  return true;
}

bool TakeOutput(FileSession& session, const PassedPath* path, int flags, mode_t mode, int* fd) {
  const FileTable& table = session.table();
  const bool makes = (flags & O_CREAT) != 0;
  *fd = -1;
  if ((flags & O_TMPFILE) == O_TMPFILE) return false;
  if (makes && !MakePackedFolders(table, path)) return true;
  // What is appended is of use line by line: a log of a job that was killed, too.
  if ((flags & O_ACCMODE) == O_RDONLY || (flags & O_APPEND) != 0) return false;
  if (path->text[strlen(path->text) - 1] == '/') return false;
  struct stat now;
  const bool is_there =
      syscall(SYS_newfstatat, AT_FDCWD, path->text, &now, AT_SYMLINK_NOFOLLOW) == 0;
  if (!is_there && !makes) return false;
  if (is_there && (!S_ISREG(now.st_mode) || (flags & O_TRUNC) == 0 ||
                   (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))) {
    return false;
  }
  if (is_there && syscall(SYS_faccessat, AT_FDCWD, path->text, W_OK) < 0) return true;
  const int draft = OpenDraft(table, path->text, flags, mode);
  if (draft < 0) return true;
  if (is_there) fchmod(draft, now.st_mode & 07777);
  char request[PATH_MAX + 1];
  snprintf(request, sizeof request, "%c%s", (flags & O_EXCL) != 0 ? 'x' : '-', path->text);
  StoreConnection connection;
  const bool is_asked = connection.Ask(table, StoreConnection::kCreate, request, draft);
  const int error = ErrorOf(&session, path->text, is_asked ? connection.Answer() : errno);
  if (error == 0) {
    Remember(path->text, draft);
    *fd = draft;
    return true;
  }
  syscall(SYS_close, draft);
  errno = error;
  return true;
}

int DescriptorOfDraft(const PassedPath* path) {
  if (!path->is_output || drafts_made.load(std::memory_order_relaxed) == 0) return -1;
  const int error = errno;
  const std::size_t hash = std::hash<std::string_view>()(path->text);
  int found = -1;
  Lock();
  for (const Draft& draft : drafts) {
    struct stat status;
    unsigned long inode;
    if (draft.path == hash && draft.inode != 0 && syscall(SYS_fstat, draft.fd, &status) == 0 &&
        status.st_ino == draft.inode && IsOutput(FileSession::Get(), draft.fd, &inode)) {
      found = draft.fd;
    }
  }
  Unlock();
  errno = error;
  return found;
}

void SettleMapped() {
  if (!has_mapped.load(std::memory_order_relaxed)) return;
  const int error = errno;
  StoreConnection connection;
  if (connection.Ask(FileSession::Get()->table(), StoreConnection::kSettle)) connection.Answer();
  errno = error;
}

void CloseOutputs() {
  FileSession* session = FileSession::Get();
  if (session == nullptr || *session->table().OutputsPath() == '\0') return;
  WithDescriptors([](int fd) {
    OutputClose output(fd);
    if (!output.is_output()) return;
    syscall(SYS_close, fd);
    output.Done(true);  // the store says what has failed
  });
}

OutputClose::OutputClose(int fd) : session_(FileSession::Get()) {
  const int error = errno;
  is_output_ = IsOutput(session_, fd, &inode_);
  if (is_output_ && !connection_.Ask(session_->table(), StoreConnection::kClose, "", fd)) {
    error_ = errno;
  }
  errno = error;
}

bool OutputClose::Done(bool is_well) {
  if (!is_output_) return true;
  const int before = errno;
  if (error_ == 0) error_ = connection_.Say(is_well ? 1 : 0) ? connection_.Answer() : ECONNRESET;
  if (error_ == StoreConnection::kOpenStill) {
    // A mapping has it open; that ends as memory does, with nobody to say so.
    const bool is_mapped = !HasDescriptor(inode_) && IsMapped(inode_);
    if (is_mapped) has_mapped.store(true, std::memory_order_relaxed);
    error_ = connection_.Say(is_mapped ? 1 : 0) ? connection_.Answer() : ECONNRESET;
  }
  error_ = ErrorOf(session_, session_->table().OutputsPath(), error_);
  errno = error_ == 0 ? before : error_;
  return error_ == 0;
}

}  // namespace io
}  // namespace horovod_opt
