#include "horovod_opt/csrc/io/node_cache/cached_records.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>

namespace horovod_opt {
namespace io {
namespace {

constexpr std::size_t kMostOpen = 256;
constexpr std::int64_t kDistance = 1 << 16;  // bytes between two that are asked for

// Where this thread goes on after SIGBUS. In static memory of the thread: a handler may not
// allocate.
__attribute__((tls_model("initial-exec"))) thread_local sigjmp_buf* volatile way_out = nullptr;

struct sigaction before;

void OnBusError(int signal, siginfo_t* info, void* context) {
  if (way_out != nullptr) siglongjmp(*way_out, 1);
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    sigaction(SIGBUS, &before, nullptr);  // it comes again at once
  }
}

bool SetHandler() {
  struct sigaction ours = {};
  ours.sa_sigaction = OnBusError;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;  // not blocked: sigsetjmp saves no mask
  sigaction(SIGBUS, nullptr, &before);
  return sigaction(SIGBUS, &ours, nullptr) == 0;
}

}  // namespace

bool CopyGuarded(char* to, const char* from, std::int64_t bytes) {
  static const bool is_guarded = SetHandler();
  sigjmp_buf here;
  if (!is_guarded || sigsetjmp(here, /*savemask=*/0) != 0) {
    way_out = nullptr;
    return false;
  }
  way_out = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  way_out = nullptr;
  return true;
}

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
