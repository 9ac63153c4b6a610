#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

namespace horovod_opt {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// MFD_NOEXEC_SEAL of Linux 6.3, which newer kernels may insist on (sysctl vm.memfd_noexec).
constexpr unsigned kNotExecutable = 8;

std::string What(std::size_t bytes) {
  return "shared memory of " + std::to_string(bytes) + " bytes";
}

[[noreturn]] void Fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

Descriptor NewFile(std::size_t bytes) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Descriptor file(memfd_create("horovod-opt", flags | kNotExecutable));
  if (file.number() < 0 && errno == EINVAL) {
    file = Descriptor(memfd_create("horovod-opt", flags));
  }
  if (file.number() < 0) {
    Fail(errno, "cannot make " + What(bytes) +
                    " (memfd_create needs Linux 3.17, and in a container a seccomp profile that "
                    "allows it)");
  }
  return file;
}

std::string Remedy(int error) {
  if (error == EFBIG) return " (more than the largest file that this process may write, ulimit -f)";
  return " (it counts towards the memory of the container or the job, not towards /dev/shm)";
}

}  // namespace

Descriptor NewSegmentFile(std::size_t bytes) {
  Descriptor file = NewFile(bytes);
  if (ftruncate(file.number(), static_cast<off_t>(bytes)) != 0) {
    Fail(errno, "cannot make " + What(bytes) + Remedy(errno));
  }
  if (fcntl(file.number(), F_ADD_SEALS, kSeals) != 0) Fail(errno, "cannot seal " + What(bytes));
  return file;
}

void AllocateSegment(const Descriptor& file, std::size_t begin, std::size_t bytes) {
  int error;
  do {
    error = posix_fallocate(file.number(), static_cast<off_t>(begin), static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error != 0) Fail(error, "cannot allocate " + What(bytes) + Remedy(error));
}

SharedSegment SharedSegment::Map(const Descriptor& file, std::size_t bytes) {
  // Only a memfd can have these seals. Whoever has another one could shrink it.
  const int seals = fcntl(file.number(), F_GET_SEALS);
  struct stat status;
  if (fstat(file.number(), &status) != 0) Fail(errno, "cannot map " + What(bytes));
  if (seals < 0 || (seals & kSeals) != kSeals) {
    Fail(EINVAL, "cannot map " + What(bytes) + ": it is not sealed");
  }
  if (status.st_uid != geteuid()) {
    Fail(EINVAL, "cannot map " + What(bytes) + ": it belongs to user " +
                     std::to_string(status.st_uid) + ", not " + std::to_string(geteuid()));
  }
  if (static_cast<std::size_t>(status.st_size) != bytes) {
    Fail(EINVAL, "cannot map " + What(bytes) + ": it has " + std::to_string(status.st_size));
  }
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
  if (data == MAP_FAILED) Fail(errno, "cannot map " + What(bytes));
  SharedSegment segment(data, bytes);
  // A child could only disturb the others with it, and would keep the memory as long as it lives.
  if (madvise(data, bytes, MADV_DONTFORK) != 0) Fail(errno, "cannot map " + What(bytes));
  return segment;
}

SharedSegment SharedSegment::Private(std::size_t bytes) {
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) Fail(errno, "cannot allocate " + std::to_string(bytes) + " bytes");
  return SharedSegment(data, bytes);
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedSegment::~SharedSegment() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace horovod_opt
