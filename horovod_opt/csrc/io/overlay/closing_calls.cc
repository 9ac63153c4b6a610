// close(), fclose(), dup2(), munmap(), _exit() and their kin, where they close what a program
// writes. A program that ends by itself has closed that, too; one that is killed has not.
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "horovod_opt/csrc/io/overlay/interposing.h"
#include "horovod_opt/csrc/io/overlay/outputs.h"

namespace horovod_opt {
namespace io {
namespace {

// Behind all that the program does at its end, but what is left in streams.
__attribute__((destructor)) void AtEnd() {
  FileSession* session = FileSession::Get();
  if (session == nullptr || *session->table().OutputsPath() == '\0') return;
  fflush(nullptr);
  CloseOutputs();
}

}  // namespace

HOROVOD_OPT_INTERPOSE(int, close, int fd) {
  OutputClose output(fd);
  const int result = HOROVOD_OPT_NEXT(close)(fd);
  return output.Done(result == 0) ? result : -1;
}

HOROVOD_OPT_INTERPOSE(int, fclose, FILE* stream) {
  const int error = errno;
  OutputClose output(fileno(stream));
  errno = error;  // fileno() sets it for what has no descriptor
  const int result = HOROVOD_OPT_NEXT(fclose)(stream);
  return output.Done(result == 0) ? result : EOF;
}

HOROVOD_OPT_INTERPOSE(int, dup2, int from, int to) {
  OutputClose output(from == to ? -1 : to);
  const int result = HOROVOD_OPT_NEXT(dup2)(from, to);
  return output.Done(result >= 0) ? result : -1;
}

HOROVOD_OPT_INTERPOSE(int, dup3, int from, int to, int flags) {
  OutputClose output(from == to ? -1 : to);
  const int result = HOROVOD_OPT_NEXT(dup3)(from, to, flags);
  return output.Done(result >= 0) ? result : -1;
}

HOROVOD_OPT_INTERPOSE(int, munmap, void* address, size_t size) {
  const int result = HOROVOD_OPT_NEXT(munmap)(address, size);
  SettleMapped();
  return result;
}

#define HOROVOD_OPT_EXIT(name)                       \
  HOROVOD_OPT_INTERPOSE(void, name, int status) {    \
    CloseOutputs();                                  \
    HOROVOD_OPT_NEXT(name)(status);                  \
    __builtin_unreachable();                         \
  }
HOROVOD_OPT_EXIT(_exit)
HOROVOD_OPT_EXIT(_Exit)
#undef HOROVOD_OPT_EXIT

}  // namespace io
}  // namespace horovod_opt
