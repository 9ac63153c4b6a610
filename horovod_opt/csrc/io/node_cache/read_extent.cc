#include "horovod_opt/csrc/io/node_cache/read_extent.h"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

namespace horovod_opt {
namespace io {
namespace {

constexpr std::int64_t kBadPiece = 4096;                   // the block of a disk
constexpr std::int64_t kMostAtOnce = std::int64_t{1} << 26;  // `stop` is looked at in between

void Miss(char* buffer, std::int64_t begin, std::int64_t end, Status why, Damages& damages) {
  std::memset(buffer + begin, 0, static_cast<std::size_t>(end - begin));
  damages.Add(begin, end, why);
}

}  // namespace

void AskAhead(int file, off_t offset, off_t bytes) {
  posix_fadvise(file, offset, bytes, POSIX_FADV_WILLNEED);
}

ExtentReader::ExtentReader(OpenFiles& files, Counters& counters, const std::atomic<bool>& stop,
                           Read read, Ask ask)
    : files_(files),
      counters_(counters),
      stop_(stop),
      read_(std::move(read)),
      ask_(std::move(ask)) {}

void ExtentReader::operator()(const Extent& extent, char* buffer, Damages& damages) {
  const std::int64_t end = extent.place + extent.bytes;
  const OpenFile file = files_.Get(extent.file);
  if (file.status != kGood) return Miss(buffer, extent.place, end, file.status, damages);
  const Piece piece = ReadPiece(file, buffer + extent.place, extent.bytes, extent.offset);
  if (piece.status == kTruncated) {
    Miss(buffer, extent.place + piece.read, end, kTruncated, damages);
  } else if (piece.status != kGood) {
    ReadBadPart(extent, piece.read, buffer, damages);
  }
}

ExtentReader::Piece ExtentReader::ReadPiece(const OpenFile& file, char* to, std::int64_t bytes,
                                            std::int64_t offset) {
  const std::int64_t request = file.request_bytes;
  const bool asks = bytes > kStep && request > 0 && request <= kMostRequest;
  std::unique_lock<FifoMutex> alone(long_, std::defer_lock);
  if (asks) alone.lock();
  std::int64_t done = 0;
  std::int64_t ahead_end = offset;  // up to there
  while (done < bytes && !stop_.load()) {
    if (asks) {
      const std::int64_t most = offset + done + kAhead;
      const std::int64_t end = std::min(offset + bytes, most - most % request);
      AskFor(file, ahead_end, end);
      ahead_end = std::max(ahead_end, end);
    }
    const std::int64_t piece = std::min(bytes - done, asks ? kStep : kMostAtOnce);
    const ssize_t count = read_(file.descriptor->number(), to + done, static_cast<size_t>(piece),
                              offset + done);
    ++counters_.requests;
    if (count == 0) return {done, kTruncated};
    if (count < 0 && errno != EINTR) return {done, errno};
    if (count > 0) {
      done += count;
      counters_.bytes_read += count;
    }
  }
  return {done, kGood};
}

void ExtentReader::AskFor(const OpenFile& file, std::int64_t begin, std::int64_t end) {
  while (begin < end) {
    const std::int64_t border = begin - begin % file.request_bytes + file.request_bytes;
    const std::int64_t next = std::min(border, end);
    ask_(file.descriptor->number(), begin, next - begin);
    begin = next;
  }
}

void ExtentReader::ReadBadPart(const Extent& extent, std::int64_t from, char* buffer,
                               Damages& damages) {
  const std::int64_t end = extent.place + extent.bytes;
  const OpenFile file = files_.Get(extent.file, /*again=*/true);
  if (file.status != kGood) return Miss(buffer, extent.place + from, end, file.status, damages);
  for (std::int64_t done = from; done < extent.bytes && !stop_.load();) {
    const std::int64_t offset = extent.offset + done;
    const std::int64_t to_border = kBadPiece - offset % kBadPiece;
    const std::int64_t bytes = std::min(to_border, extent.bytes - done);
    const std::int64_t place = extent.place + done;
    const Piece piece = ReadPiece(file, buffer + place, bytes, offset);
    if (piece.status == kTruncated) {
      return Miss(buffer, place + piece.read, end, kTruncated, damages);
    }
    if (piece.status != kGood) {
      Miss(buffer, place + piece.read, place + bytes, piece.status, damages);
    }
    done += bytes;
  }
}

}  // namespace io
}  // namespace horovod_opt
