#include "horovod_opt/csrc/io/node_cache/cached_records.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <utility>

#include "horovod_opt/csrc/io/files/guarded_copy.h"

namespace horovod_opt {
namespace io {
namespace {

constexpr std::size_t kMostOpen = 256;
constexpr std::int64_t kDistance = 1 << 16;  // bytes between two that are asked for

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

CachedRecords::CachedRecords(FileTable table, Counters& counters, const std::atomic<bool>& stop)
    : files_(std::move(table), kMostOpen), from_storage_(files_, counters, stop, pread) {}

CachedRecords::~CachedRecords() {
  for (const Mapped& mapped : mapped_) {
    if (mapped.data != nullptr) munmap(mapped.data, static_cast<std::size_t>(mapped.bytes));
  }
}

Status CachedRecords::Read(std::int32_t file, std::int64_t offset, std::int64_t bytes,
                           bool is_checked, char* to) {
  const char* const mapping = is_checked ? Find(file, offset, bytes) : nullptr;
  if (mapping != nullptr) {
    if (CopyGuarded(to, mapping, bytes)) return kGood;
  } else {
    const OpenFile open_file = files_.Get(file);
    if (open_file.status == kGood &&
        ReadCached(open_file.descriptor->number(), to, bytes, offset)) {
      return kGood;
    }
  }
  return Reread(file, offset, bytes, to);
}

Status CachedRecords::Reread(std::int32_t file, std::int64_t offset, std::int64_t bytes,
                             char* to) {
  Damages damages{};
  from_storage_({file, offset, bytes, 0}, to, damages);
  return damages.Of(0, bytes);
}

const char* CachedRecords::Find(std::int32_t file, std::int64_t offset, std::int64_t bytes) {
  std::call_once(once_, [this] { MapAll(); });
  if (mapped_.empty()) return nullptr;
  const Mapped& mapped = mapped_[static_cast<std::size_t>(file)];
  return mapped.data != nullptr && offset <= mapped.bytes - bytes ? mapped.data + offset : nullptr;
}

void CachedRecords::MapAll() {
  if (files_.size() > static_cast<std::int64_t>(kMostOpen)) return;
  mapped_.resize(static_cast<std::size_t>(files_.size()));
  for (std::int32_t i = 0; i < files_.size(); ++i) {
    const OpenFile file = files_.Get(i);
    const std::int64_t bytes = files_.bytes(i);
    if (file.status != kGood || bytes == 0) continue;
    void* const data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ, MAP_SHARED,
                            file.descriptor->number(), 0);
    if (data == MAP_FAILED) continue;
    madvise(data, static_cast<std::size_t>(bytes), MADV_RANDOM);  // reading ahead is the reader's
    mapped_[static_cast<std::size_t>(i)] = {static_cast<char*>(data), bytes};
  }
}

}  // namespace io
}  // namespace horovod_opt
