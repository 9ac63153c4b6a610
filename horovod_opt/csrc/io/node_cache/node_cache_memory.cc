#include "horovod_opt/csrc/io/node_cache/node_cache_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace horovod_opt {
namespace io {
namespace {

constexpr std::uint64_t kMagic = 0x676e69722d6f6968;  // "hio-ring"
constexpr std::uint64_t kVersion = 5;
// Of 47 bits of addresses, the part that chunk buffers may use. Only what is read into takes
// memory.
constexpr std::int64_t kMostAddresses = std::int64_t{1} << 46;
constexpr std::int64_t kMostRanks = 1 << 16;

static_assert(std::atomic<std::int64_t>::is_always_lock_free, "processes share them");

// Offsets in bytes of what the memory holds.
struct Places {
  std::int64_t entries, buffer_stride;
  std::int64_t ranks, marks, table, damages, buffers, end;

  explicit Places(const Shape& shape) {
    // So many that a load is over before its place is needed again: LoadCheck sees to it.
    for (entries = 64; entries < 16 * shape.buffers;) entries *= 2;
    buffer_stride = WholePages(shape.buffer_bytes);
    ranks = WholePages(sizeof(Header));
    marks = ranks + shape.ranks * static_cast<std::int64_t>(sizeof(RankState));
    table = marks + shape.ranks * kMarks * static_cast<std::int64_t>(sizeof(std::int64_t));
    damages = table + entries * static_cast<std::int64_t>(sizeof(Entry));
    buffers = WholePages(damages + shape.buffers * static_cast<std::int64_t>(sizeof(Damages)));
    end = buffers + shape.buffers * buffer_stride;
  }
};

void Check(const Shape& shape) {
  const auto in = [](std::int64_t value, std::int64_t least, std::int64_t most) {
    return least <= value && value <= most;
  };
  if (!in(shape.ranks, 1, kMostRanks) || !in(shape.buffer_bytes, 1, kMostAddresses) ||
      !in(shape.buffers, 1, kMostAddresses / WholePages(shape.buffer_bytes)) || shape.memory < 0 ||
      shape.start < 0) {
    throw std::invalid_argument(
        "no ring can have " + std::to_string(shape.ranks) + " ranks, " +
        std::to_string(shape.buffers) + " slots of " + std::to_string(shape.buffer_bytes) +
        " bytes, a memory of " + std::to_string(shape.memory) + " bytes, and begin at step " +
        std::to_string(shape.start));
  }
}

}  // namespace

std::int64_t PageBytes() {
  static const std::int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

std::int64_t WholePages(std::int64_t bytes) {
  return (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
}

NodeCacheMemory NodeCacheMemory::Create(const Shape& shape) {
  Check(shape);
  const auto bytes = static_cast<std::size_t>(Places(shape).end);
  Descriptor file = NewSegmentFile(bytes);
  SharedSegment segment = SharedSegment::Map(file, bytes);
  NodeCacheMemory memory(std::move(file), std::move(segment), shape);
  Header& header = memory.header();
  header.version = kVersion;
  header.shape = shape;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) memory.rank(rank).cursor = shape.start;
  header.magic = kMagic;
  return memory;
}

NodeCacheMemory NodeCacheMemory::Attach(Descriptor file) {
  struct stat status;
  if (fstat(file.number(), &status) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot attach to a ring");
  }
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes < sizeof(Header)) throw std::invalid_argument("what was handed over is no ring");
  SharedSegment segment = SharedSegment::Map(file, bytes);
  const Header& header = *static_cast<const Header*>(segment.data());
  if (header.magic != kMagic) throw std::invalid_argument("what was handed over is no ring");
  if (header.version != kVersion) {
    throw std::invalid_argument("the ring is of version " + std::to_string(header.version) +
                                ", this process knows version " + std::to_string(kVersion) +
                                ": install the same horovod-opt for all ranks");
  }
  const Shape shape = header.shape;
  Check(shape);
  if (Places(shape).end != static_cast<std::int64_t>(bytes)) {
    throw std::invalid_argument("the ring has " + std::to_string(bytes) + " bytes, by its header " +
                                std::to_string(Places(shape).end));
  }
  return NodeCacheMemory(std::move(file), std::move(segment), shape);
}

NodeCacheMemory::NodeCacheMemory(Descriptor file, SharedSegment segment, const Shape& shape)
    : file_(std::move(file)), segment_(std::move(segment)), shape_(shape) {
  const Places places(shape);
  char* const begin = static_cast<char*>(segment_.data());
  entries_ = places.entries;
  buffer_stride_ = places.buffer_stride;
  ranks_ = reinterpret_cast<RankState*>(begin + places.ranks);
  marks_ = reinterpret_cast<std::atomic<std::int64_t>*>(begin + places.marks);
  table_ = reinterpret_cast<Entry*>(begin + places.table);
  damages_ = reinterpret_cast<Damages*>(begin + places.damages);
  buffers_ = begin + places.buffers;
}

void NodeCacheMemory::Punch(std::int64_t buffer, std::int64_t begin, std::int64_t end) const {
  const std::int64_t offset =
      buffers_ - static_cast<char*>(segment_.data()) + buffer * buffer_stride_;
  if (fallocate(file_.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset + begin,
                end - begin) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot give memory of the ring back");
  }
}

}  // namespace io
}  // namespace horovod_opt
