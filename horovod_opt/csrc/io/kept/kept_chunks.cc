#include "horovod_opt/csrc/io/kept/kept_chunks.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace horovod_opt {
namespace io {
namespace {

constexpr std::int64_t kPage = 4096;  // bytes: a chunk begins with a page, to be freed alone
constexpr std::chrono::milliseconds kLook(100);  // how often `stop` is looked at

std::int64_t WholePages(std::int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

Descriptor MakeFile(const std::string& folder) {
  Descriptor file(folder.empty() ? memfd_create("horovod-opt-io-kept", MFD_CLOEXEC)
                                 : open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.number() < 0) {
    system_call::Fail(folder.empty() ? "memfd_create" : "no file without a name in " + folder);
  }
  return file;
}

}  // namespace

KeptChunks::KeptChunks(std::vector<std::int64_t> bytes, const std::string& folder)
    : bytes_(std::move(bytes)), file_(MakeFile(folder)), states_(bytes_.size(), State::kElsewhere) {
  std::int64_t place = 0;
  for (const std::int64_t size : bytes_) {
    places_.push_back(place);
    place += WholePages(size);
  }
  if (ftruncate(file_.number(), place) != 0) system_call::Fail("ftruncate");
}

KeptChunks::State KeptChunks::state(std::int64_t chunk) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return states_[Index(chunk)];
}

void KeptChunks::SetHomes(const std::vector<bool>& is_here) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_closed_) return;
  for (std::int64_t chunk = 0; chunk < count(); ++chunk) {
    State& state = states_[Index(chunk)];
    if (is_here[Index(chunk)] && state == State::kElsewhere) {
      state = State::kMissing;
    } else if (!is_here[Index(chunk)] && state != State::kElsewhere) {
      if (state == State::kKept) {
        kept_bytes_ -= bytes(chunk);
        Free(chunk);
      }
      state = State::kElsewhere;  // who reads it finds that when it ends
    }
  }
  changed_.notify_all();
}

bool KeptChunks::Claim(std::int64_t chunk) {
  std::lock_guard<std::mutex> lock(mutex_);
  State& state = states_[Index(chunk)];
  if (state != State::kMissing) return false;
  state = State::kReading;
  return true;
}

int KeptChunks::Keep(std::int64_t chunk, const char* data) {
  const int error = Write(chunk, data);
  End(chunk, error == 0 ? State::kKept : State::kRefused);
  return error;
}

void KeptChunks::Refuse(std::int64_t chunk) { End(chunk, State::kRefused); }

void KeptChunks::Release(std::int64_t chunk) { End(chunk, State::kMissing); }

void KeptChunks::End(std::int64_t chunk, State state) {
  std::function<void()> on_change;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool is_wanted = states_[Index(chunk)] == State::kReading;
    if (is_wanted) states_[Index(chunk)] = state;
    if (state == State::kKept && is_wanted) kept_bytes_ += bytes(chunk);
    if (state != State::kMissing && !(state == State::kKept && is_wanted)) Free(chunk);
    on_change = on_change_;
  }
  changed_.notify_all();
  if (on_change) on_change();
}

KeptChunks::State KeptChunks::Await(std::int64_t chunk, const std::atomic<bool>& stop) const {
  std::unique_lock<std::mutex> lock(mutex_);
  const State& state = states_[Index(chunk)];
  while (state == State::kReading && !stop.load()) changed_.wait_for(lock, kLook);
  return state;
}

bool KeptChunks::Read(std::int64_t chunk, std::int64_t begin, std::int64_t bytes, char* to) const {
  std::int64_t done = 0;
  while (done < bytes) {
    const ssize_t count = pread(file_.number(), to + done, static_cast<std::size_t>(bytes - done),
                                place(chunk) + begin + done);
    if (count == 0 || (count < 0 && errno != EINTR)) return false;
    if (count > 0) done += count;
  }
  return true;
}

void KeptChunks::OnChange(std::function<void()> action) {
  std::lock_guard<std::mutex> lock(mutex_);
  on_change_ = std::move(action);
}

void KeptChunks::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_closed_ = true;
  states_.assign(states_.size(), State::kElsewhere);
  kept_bytes_ = 0;
  // Who still reads of it finds the end of the file.
  [[maybe_unused]] const int result = ftruncate(file_.number(), 0);
  changed_.notify_all();
}

int KeptChunks::Write(std::int64_t chunk, const char* data) const {
  std::int64_t done = 0;
  while (done < bytes(chunk)) {
    const ssize_t count =
        pwrite(file_.number(), data + done, static_cast<std::size_t>(bytes(chunk) - done),
               place(chunk) + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    done += count;
  }
  return 0;
}

void KeptChunks::Free(std::int64_t chunk) const {
  fallocate(file_.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, place(chunk),
            WholePages(bytes(chunk)));
}

}  // namespace io
}  // namespace horovod_opt
