// A sealed memfd: memory that the processes of a node share. It has no name anywhere: one process
// makes it and hands its descriptor to the others (segment_handover.h), so nothing is left behind
// however they end.
#pragma once

#include <cstddef>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {

// A memfd of `bytes` zeros, sealed: nobody can change its size, which would end the others by
// SIGBUS. std::system_error if that cannot be done, with the bytes asked for and the remedy.
Descriptor NewSegmentFile(std::size_t bytes);

// Allocates the pages of a part of it that nobody has allocated yet, so that using them cannot
// fail: where the calling thread's memory is, which with NUMA is near its cores. There is no limit
// but that of all memory, of the machine or the container: beyond it the kernel ends a process, as
// for any other memory. std::system_error, as above.
void AllocateSegment(const Descriptor& file, std::size_t begin, std::size_t bytes);

// Mapped memory, unmapped by the destructor. Move-only. Errors are std::system_error.
class SharedSegment {
 public:
  // Maps what NewSegmentFile(bytes) has made, in this process or another one of the same user.
  // EINVAL if it is anything else. A child that this process forks does not have the memory.
  static SharedSegment Map(const Descriptor& file, std::size_t bytes);

  // Zeros for a process that shares them with nobody, allocated on first use.
  static SharedSegment Private(std::size_t bytes);

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  void* data() const { return data_; }  // aligned to a page
  std::size_t size() const { return size_; }

 private:
  SharedSegment(void* data, std::size_t size) : data_(data), size_(size) {}

  void* data_;
  std::size_t size_;
};

}  // namespace horovod_opt
