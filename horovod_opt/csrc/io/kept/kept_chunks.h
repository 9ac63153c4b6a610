// Chunks that a node keeps for the job: in memory without a name, or in a file without one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {
namespace io {

// Of the data set's chunks, those that have their home here: others come and go in the node cache.
// A chunk is read once, and stays. A chunk has its place in the file whether it is kept or not:
// what was never written takes nothing.
//
// Invariants:
//   (1) what is kept is never freed while its home is here and it is open: a request waits for
//       storage alone, never for a rank;
//   (2) whoever has claimed a chunk waits for nothing but storage before it keeps, refuses or
//       releases it;
//   (3) nothing of it is mapped: it is read with pread(2) and sent with sendfile(2), and is in no
//       process's RSS.
class KeptChunks {
 public:
  enum class State : std::uint8_t {
    kElsewhere,  // its home, if it has one
    kMissing,    // not read yet
    kReading,    // somebody has claimed it
    kKept,
    kRefused,  // cannot be kept: it has damaged records, or there is no room
  };

  // `bytes` of each chunk; `folder`: where the file is, empty for memory. Throws std::system_error.
  KeptChunks(std::vector<std::int64_t> bytes, const std::string& folder);

  std::int64_t count() const { return static_cast<std::int64_t>(bytes_.size()); }
  std::int64_t bytes(std::int64_t chunk) const { return bytes_[Index(chunk)]; }
  std::int64_t place(std::int64_t chunk) const { return places_[Index(chunk)]; }
  const Descriptor& file() const { return file_; }
  std::int64_t kept_bytes() const { return kept_bytes_; }

  State state(std::int64_t chunk) const;
  // What has its home here from now on; what has not any more is freed.
  void SetHomes(const std::vector<bool>& is_here);

  // Whether the chunk was missing, and the caller now is the one who reads it.
  bool Claim(std::int64_t chunk);
  // Of a chunk that was claimed. 0, or the errno by which it cannot be written, and is refused.
  int Keep(std::int64_t chunk, const char* data);
  void Refuse(std::int64_t chunk);
  void Release(std::int64_t chunk);  // it is missing again
  // Its state when nobody is reading it any more, or `stop` is set.
  State Await(std::int64_t chunk, const std::atomic<bool>& stop) const;

  // Bytes of a chunk that is kept. False: it is not any more, or the file cannot be read.
  bool Read(std::int64_t chunk, std::int64_t begin, std::int64_t bytes, char* to) const;

  // Calls this when a chunk's reading has ended.
  void OnChange(std::function<void()> action);
  // Nothing is kept any more, and what was is freed.
  void Close();

 private:
  std::size_t Index(std::int64_t chunk) const { return static_cast<std::size_t>(chunk); }
  int Write(std::int64_t chunk, const char* data) const;
  void Free(std::int64_t chunk) const;
  void End(std::int64_t chunk, State state);

  const std::vector<std::int64_t> bytes_;
  std::vector<std::int64_t> places_;
  Descriptor file_;
  std::atomic<std::int64_t> kept_bytes_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<State> states_;
  std::function<void()> on_change_;
  bool is_closed_ = false;
};

}  // namespace io
}  // namespace horovod_opt
