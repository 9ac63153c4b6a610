#include "shared_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <system_error>
#include <utility>

namespace horovod_opt {
namespace {

std::string What(const std::string& name, std::size_t bytes) {
  return "shared memory segment " + name + " of " + std::to_string(bytes) + " bytes";
}

[[noreturn]] void Fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

// Returns an errno, or 0.
int Allocate(int descriptor, std::size_t bytes) {
  int error;
  do {
    error = posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

std::string Remedy(int descriptor) {
  struct statvfs status;
  if (fstatvfs(descriptor, &status) != 0) return "";
  const unsigned long long left = 1ULL * status.f_bavail * status.f_frsize;
  return "; " + std::to_string(left) +
         " bytes are free. Enlarge /dev/shm (docker run --shm-size, mount -o remount,size=...) or "
         "remove what is left over in it";
}

void* Map(int descriptor, const std::string& name, std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) Fail(errno, "cannot map " + What(name, bytes));
  return data;
}

}  // namespace

SharedSegment SharedSegment::Create(const std::string& name, std::size_t bytes) {
  const Descriptor file(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
  if (file.number() < 0) Fail(errno, "cannot create " + What(name, bytes));
  SharedSegment segment(name, nullptr, 0);  // from here on, an exception removes the name
  if (const int error = Allocate(file.number(), bytes)) {
    const std::string remedy = error == ENOSPC ? Remedy(file.number()) : "";
    Fail(error, "cannot allocate " + What(name, bytes) + remedy);
  }
  segment.data_ = Map(file.number(), name, bytes);
  segment.size_ = bytes;
  return segment;
}

SharedSegment SharedSegment::Open(const std::string& name, std::size_t bytes) {
  const Descriptor file(shm_open(name.c_str(), O_RDWR, 0));
  if (file.number() < 0) Fail(errno, "cannot open " + What(name, bytes));
  struct stat status;
  if (fstat(file.number(), &status) != 0) Fail(errno, "cannot open " + What(name, bytes));
  if (static_cast<std::size_t>(status.st_size) < bytes) {
    Fail(EINVAL, "cannot open " + What(name, bytes) + ": it has only " +
                     std::to_string(status.st_size));
  }
  return SharedSegment("", Map(file.number(), name, bytes), bytes);
}

SharedSegment SharedSegment::Private(std::size_t bytes) {
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) Fail(errno, "cannot allocate " + std::to_string(bytes) + " bytes");
  return SharedSegment("", data, bytes);
}

SharedSegment::SharedSegment(std::string name, void* data, std::size_t size)
    : linked_name_(std::move(name)), data_(data), size_(size) {}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : linked_name_(std::exchange(other.linked_name_, {})),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedSegment& SharedSegment::operator=(SharedSegment&& other) noexcept {
  std::swap(linked_name_, other.linked_name_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedSegment::~SharedSegment() {
  Unlink();
  if (data_ != nullptr) munmap(data_, size_);
}

void SharedSegment::Unlink() noexcept {
  if (linked_name_.empty()) return;
  shm_unlink(linked_name_.c_str());
  linked_name_.clear();
}

}  // namespace horovod_opt
