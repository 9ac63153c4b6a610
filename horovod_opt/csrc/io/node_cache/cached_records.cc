#include "horovod_opt/csrc/io/node_cache/cached_records.h"

#include <linux/magic.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

namespace horovod_opt {
namespace io {
namespace {

constexpr std::size_t kMostOpen = 32;
constexpr std::int64_t kMostMapped = 256;
constexpr std::int64_t kLong = 1 << 15;  // bytes whose copy takes much longer than a system call
// What is noted and let go of together, in bytes: so much the kernel maps at a fault, around it.
constexpr std::int64_t kPart = 1 << 16;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
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

// Whether a file is in memory as a whole: of tmpfs, or without a name. There RWF_NOWAIT is refused.
bool IsInMemory(int file) {
  struct statfs status;
  return fstatfs(file, &status) == 0 && status.f_type == TMPFS_MAGIC;
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
  const ssize_t read = preadv2(file, &piece, 1, offset, RWF_NOWAIT);
  if (read >= 0 || errno != EOPNOTSUPP) return read == bytes;
  return IsInMemory(file) && pread(file, to, piece.iov_len, offset) == bytes;
}

CachedRecords::CachedRecords(FileTable table, Counters& counters, const std::atomic<bool>& stop)
    
    : files_(std::move(table), kMostOpen),
      from_storage_(files_, counters, stop, pread),
      first_last_(kNever) {}

CachedRecords::~CachedRecords() {
  for (const Mapped& mapped : mapped_) {
    if (mapped.data != nullptr) munmap(mapped.data, static_cast<std::size_t>(mapped.bytes));
  }
}

Status CachedRecords::Read(std::int32_t file, std::int64_t offset, std::int64_t bytes,
                           bool is_checked, char* to) {
  const char* const mapping = is_checked ? Find(file, offset, bytes) : nullptr;
  if (mapping == nullptr || bytes >= kLong) {
    const OpenFile open_file = files_.Get(file);
    if (open_file.status == kGood) {
      if (ReadCached(open_file.descriptor->number(), to, bytes, offset)) return kGood;
      return Reread(file, offset, bytes, to);
    }
  }
  if (mapping != nullptr && CopyGuarded(to, mapping, bytes)) return kGood;
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
  if (files_.size() > kMostMapped) return;
  std::int64_t parts = 0;
  mapped_.resize(static_cast<std::size_t>(files_.size()));
  for (std::int32_t i = 0; i < files_.size(); ++i) {
    const OpenFile file = files_.Get(i);
    const std::int64_t bytes = files_.bytes(i);
    if (file.status != kGood || bytes == 0) continue;
    void* const data = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ, MAP_SHARED,
                            file.descriptor->number(), 0);
    if (data == MAP_FAILED) continue;
    madvise(data, static_cast<std::size_t>(bytes), MADV_RANDOM);  // reading ahead is the reader's
    mapped_[static_cast<std::size_t>(i)] = {static_cast<char*>(data), bytes, parts};
    parts += (bytes + kPart - 1) / kPart;
  }
  is_used_ = std::vector<std::atomic<std::uint64_t>>(static_cast<std::size_t>(parts / 64 + 1));
}

void CachedRecords::NoteUse(std::int32_t file, std::int64_t offset, std::int64_t bytes,
                            std::int64_t last) {
  if (bytes == 0 || bytes >= kLong || is_used_.empty()) return;
  const Mapped& mapped = mapped_[static_cast<std::size_t>(file)];
  if (mapped.data == nullptr) return;
  for (std::int64_t part = offset / kPart; part <= (offset + bytes - 1) / kPart; ++part) {
    const std::int64_t number = mapped.first_part + part;
    std::atomic<std::uint64_t>& word = is_used_[static_cast<std::size_t>(number / 64)];
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    if ((word.load(std::memory_order_relaxed) & bit) != 0 || (word.fetch_or(bit) & bit) != 0) {
      continue;
    }
    std::lock_guard<std::mutex> lock(used_mutex_);
    used_.push({last, file, part});
    first_last_ = used_.top().last;
  }
}

void CachedRecords::LetGo(std::int64_t step) {
  if (first_last_.load(std::memory_order_relaxed) >= step) return;
  std::vector<UsedPart> parts;
  {
    std::lock_guard<std::mutex> lock(used_mutex_);
    for (; !used_.empty() && used_.top().last < step; used_.pop()) parts.push_back(used_.top());
    first_last_ = used_.empty() ? kNever : used_.top().last;
  }
  Unmap(std::move(parts));
}

// Neighbours together, and what the kernel has mapped around them.
void CachedRecords::Unmap(std::vector<UsedPart> parts) {
  std::sort(parts.begin(), parts.end(), [](const UsedPart& one, const UsedPart& other) {
    return std::tie(one.file, one.part) < std::tie(other.file, other.part);
  });
  for (std::size_t i = 0, end = 0; i < parts.size(); i = end) {
    const Mapped& mapped = mapped_[static_cast<std::size_t>(parts[i].file)];
    for (end = i; end < parts.size() && parts[end].file == parts[i].file &&
                  parts[end].part - parts[i].part == static_cast<std::int64_t>(end - i);
         ++end) {
      const std::int64_t number = mapped.first_part + parts[end].part;
      is_used_[static_cast<std::size_t>(number / 64)] &= ~(std::uint64_t{1} << number % 64);
    }
    const std::int64_t from = std::max<std::int64_t>(parts[i].part - 1, 0) * kPart;
    const std::int64_t to = std::min((parts[end - 1].part + 2) * kPart, mapped.bytes);
    madvise(mapped.data + from, static_cast<std::size_t>(to - from), MADV_DONTNEED);
  }
}

}  // namespace io
}  // namespace horovod_opt
