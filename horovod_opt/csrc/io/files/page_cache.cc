#include "horovod_opt/csrc/io/files/page_cache.h"

#include <sys/uio.h>

namespace horovod_opt {
namespace io {
namespace {

constexpr std::int64_t kDistance = 1 << 16;

}  // namespace

bool IsCached(int file, std::int64_t offset, std::int64_t bytes) {
  char byte;
  for (std::int64_t place = 0; place < bytes; place += kDistance) {
    if (!ReadCached(file, &byte, 1, offset + place)) return false;
  }
  return bytes == 0 || ReadCached(file, &byte, 1, offset + bytes - 1);
}

bool ReadCached(int file, char* to, std::int64_t bytes, std::int64_t offset) {
  const iovec piece{to, static_cast<std::size_t>(bytes)};
  return preadv2(file, &piece, 1, offset, RWF_NOWAIT) == bytes;
}

}  // namespace io
}  // namespace horovod_opt
