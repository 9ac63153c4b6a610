// Memory that the processes of a node share.
#pragma once

#include <cstddef>
#include <string>

namespace horovod_opt {

// A POSIX shared memory object, mapped; unmapped by the destructor. One rank creates it, the others
// open it once that has returned, and when all have done so the creator takes the name away, so
// that nothing is left behind however the processes end. Move-only. Errors are std::system_error
// whose text names the segment and the bytes asked for.
class SharedSegment {
 public:
  // Makes a segment of `bytes` zeros that only this user can open. `name` starts with '/' and has
  // no other. All of the memory is allocated: too little of it is an error here (ENOSPC, with the
  // bytes free and the remedy), not a SIGBUS on first use. EEXIST if the name is taken.
  static SharedSegment Create(const std::string& name, std::size_t bytes);

  // Maps a segment that Create() has made with at least as many bytes. ENOENT if there is none,
  // EINVAL if it is smaller.
  static SharedSegment Open(const std::string& name, std::size_t bytes);

  // Zeros for a process that shares them with nobody, without a name and allocated on first use.
  static SharedSegment Private(std::size_t bytes);

  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&& other) noexcept;
  ~SharedSegment();

  // Removes the name; the memory lives as long as somebody maps it. The creator's destructor does
  // the same; elsewhere, and the second time, it does nothing.
  void Unlink() noexcept;

  void* data() const { return data_; }  // aligned to a page
  std::size_t size() const { return size_; }

 private:
  SharedSegment(std::string name, void* data, std::size_t size);

  std::string linked_name_;  // of a segment made here and not unlinked yet, else empty
  void* data_;
  std::size_t size_;
};

}  // namespace horovod_opt
