// Preloaded: reads of a file fail as a line of the file $FAULTS says, while there is one:
//
//     eio BEGIN END PATH     what touches these bytes: EIO
//     stale 0 0 PATH         all through the descriptor that is read first: ESTALE
//     short 0 0 PATH         EINTR and at most 777 bytes, in turn
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

typedef ssize_t (*Read)(int, void*, size_t, off_t);

typedef ssize_t (*ReadCached)(int, const struct iovec*, int, off_t, int);

static Read real_read;
static ReadCached real_read_cached;
static int stale = -1, calls;

__attribute__((constructor)) static void Find(void) {
  real_read = (Read)dlsym(RTLD_NEXT, "pread");
  real_read_cached = (ReadCached)dlsym(RTLD_NEXT, "preadv2");
}

// Whether `file` has the fault that is on now.
static int HasFault(int file, char* kind, long* begin, long* end) {
  char path[4096] = "", wanted[4096], link[64];
  const char* const name = getenv("FAULTS");
  FILE* const faults = name == NULL ? NULL : fopen(name, "r");
  if (faults == NULL) return 0;
  const int read = fscanf(faults, "%15s %ld %ld %4095s", kind, begin, end, wanted);
  fclose(faults);
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length > 0) path[length] = '\0';
  return read == 4 && strcmp(path, wanted) == 0;
}

// What has a fault comes from storage.
ssize_t preadv2(int file, const struct iovec* to, int count, off_t offset, int flags) {
  char kind[16];
  long begin, end;
  if (!HasFault(file, kind, &begin, &end)) return real_read_cached(file, to, count, offset, flags);
  errno = EAGAIN;
  return -1;
}

ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
  char kind[16];
  long begin, end;
  if (!HasFault(file, kind, &begin, &end)) return real_read(file, to, bytes, offset);
  if (strcmp(kind, "eio") == 0 && offset < end && offset + (off_t)bytes > begin) {
    errno = EIO;
    return -1;
  }
  if (strcmp(kind, "stale") == 0) {
    int none = -1;
    __atomic_compare_exchange_n(&stale, &none, file, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    if (file == stale) {
      errno = ESTALE;
      return -1;
    }
  }
  if (strcmp(kind, "short") == 0) {
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) % 2 == 0) {
      errno = EINTR;
      return -1;
    }
    if (bytes > 777) bytes = 777;
  }
  return real_read(file, to, bytes, offset);
}

ssize_t pread64(int file, void* to, size_t bytes, off_t offset) {
  return pread(file, to, bytes, offset);
}
