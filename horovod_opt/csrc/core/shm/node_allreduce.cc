// The memory is a barrier and two buffers. A buffer has one row per rank: an announcement and one
// slice per rank, each slice at a fixed place.
//
// Flat: a rank copies its whole contribution into its row, meets the others, and reduces all rows
// itself. Chunked: each rank owns one slice of every chunk. It copies into its row what others own;
// they meet; it reduces its slice into its own output and, for the others, into the place in its
// row that it left free; they meet; it copies the others' results out. Between two barriers a rank
// works on three chunks: it reduces one, copies the result of the last out and the next one in, so
// that n chunks need n + 1 barriers. With several groups it is always chunked: the owner of a slice
// reduces it over the groups before the barrier that shows it to the others.
//
// Why two buffers and one barrier per copy suffice. Number the copies in over all calls. Copy n
// goes to buffer n % 2; let B(n) be the first barrier after it. A rank begins copy n + 2 after
// B(n + 1), where all have arrived, and writes over
// - copy n, which was read right after B(n) and so before anyone arrived at B(n + 1);
// - the results of chunk n, which are read after the barrier that follows B(n). If that is the last
//   of its call, it comes before B(n + 1), and so does the reading. Else it is B(n + 1) itself, and
//   copy n + 2 is either of the same call, and leaves the places of the results free until
//   B(n + 2), or of the next one, and then the last barrier of this call is in between.
// The announcement of a call is written with its first copy and read right after the barrier: the
// same. Ranks that disagree about the call have each made one copy, into their own row, and met
// once: they are still in step.

#include "horovod_opt/csrc/core/shm/node_allreduce.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/core/shm/node_barrier.h"

namespace horovod_opt {
namespace {

constexpr std::int64_t kLine = 64;  // bytes of a cache line
// A call is flat up to this many bytes in all rows. Measured on two cores with 2, 4 and 8 ranks:
// above, reading all rows costs more than a second barrier.
constexpr std::int64_t kFlat = 128 << 10;

struct alignas(kLine) Announcement {
  std::uint64_t tag;
  std::int64_t bytes;
};

Announcement& Announced(char* row) { return *reinterpret_cast<Announcement*>(row); }

std::string Text(const Announcement& announcement) {
  return "tag " + std::to_string(announcement.tag) + " of " + std::to_string(announcement.bytes) +
         " bytes";
}

std::int64_t CeilDiv(std::int64_t numerator, std::int64_t denominator) {
  return (numerator + denominator - 1) / denominator;
}

// The largest whole number of cache lines for a slice so that everything fits into `bytes`.
std::int64_t SliceBytes(std::size_t bytes, int rank, int ranks) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw std::invalid_argument("local rank " + std::to_string(rank) + " is not one of " +
                                std::to_string(ranks));
  }
  const std::size_t least = NodeAllreduce::Bytes(ranks, 1);
  if (bytes < least) {
    throw std::invalid_argument("reductions of " + std::to_string(ranks) + " ranks need at least " +
                                std::to_string(least) + " bytes of shared memory, not " +
                                std::to_string(bytes));
  }
  const std::int64_t row = static_cast<std::int64_t>(bytes - sizeof(NodeBarrier)) / (2 * ranks);
  return (row - kLine) / ranks / kLine * kLine;
}

}  // namespace

// One call of Run(). Offsets and lengths are bytes, in whole elements.
struct NodeAllreduce::Call {
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  Call(const std::vector<Segment>& segments, const Arithmetic& arithmetic_, double prescale_,
       double postscale_, const CrossReduce& cross_, std::uint64_t first_)
      : data(segments),
        arithmetic(arithmetic_),
        element(static_cast<std::int64_t>(arithmetic_.element)),
        prescale(prescale_),
        postscale(postscale_),
        cross(cross_),
        first(first_) {
    for (const Segment& segment : segments) {
      if (segment.bytes < 0 || segment.bytes % element != 0) {
        throw std::invalid_argument("a tensor of " + std::to_string(segment.bytes) +
                                    " bytes has no whole number of elements of " +
                                    std::to_string(element) + " bytes");
      }
    }
  }

  // Cuts the bucket into chunks as equal as possible, whose slices have at most `room` bytes.
  void Cut(int ranks, std::int64_t room) {
    const std::int64_t elements = data.Bytes() / element;
    chunks = std::max<std::int64_t>(1, CeilDiv(elements, room / element * ranks));
    const std::int64_t chunk_elements = CeilDiv(elements, chunks);
    chunk = chunk_elements * element;
    slice = CeilDiv(chunk_elements, ranks) * element;
  }

  // The slice of chunk `number` that `owner` reduces; empty at the end of a bucket that does not
  // divide.
  Range Slice(std::int64_t number, int owner) const {
    const std::int64_t end = std::min((number + 1) * chunk, data.Bytes());
    const std::int64_t begin = std::min(number * chunk + owner * slice, end);
    return {begin, std::min(begin + slice, end)};
  }

  // Calls step(begin, end) for one block after the other.
  template <class Step>
  void ForEachBlock(Range range, const Step& step) const {
    const std::int64_t block = kBlock / element * element;
    for (std::int64_t begin = range.begin; begin < range.end; begin += block) {
      step(begin, std::min(begin + block, range.end));
    }
  }

  void Contribute(std::int64_t begin, std::int64_t end, char* to) const {
    data.Read(begin, end, to);
    Scale(to, end - begin, prescale);
  }

  void Reduce(char* accumulate, const char* other, std::int64_t bytes) const {
    arithmetic.reduce(accumulate, other, bytes / element);
  }

  void Finish(std::int64_t begin, std::int64_t end, char* sum) const {
    Scale(sum, end - begin, postscale);
    data.Write(begin, end, sum);
  }

  void Scale(char* values, std::int64_t bytes, double factor) const {
    if (factor != 1) arithmetic.scale(values, bytes / element, factor);
  }

  const TensorView data;
  const Arithmetic& arithmetic;
  const std::int64_t element;
  const double prescale;
  const double postscale;
  const CrossReduce& cross;
  const std::uint64_t first;  // number of the first copy
  std::int64_t chunks = 0;
  std::int64_t chunk = 0;
  std::int64_t slice = 0;
};

std::size_t NodeAllreduce::Bytes(int ranks, std::size_t chunk) {
  const std::size_t count = static_cast<std::size_t>(ranks);
  const std::size_t lines = (chunk + count * kLine - 1) / (count * kLine);  // of a slice
  return sizeof(NodeBarrier) + 2 * count * (1 + count * lines) * kLine;
}

NodeAllreduce::NodeAllreduce(void* memory, std::size_t bytes, int rank, int ranks)
    : rank_(rank),
      ranks_(ranks),
      barrier_(static_cast<NodeBarrier*>(memory)),
      buffers_(static_cast<char*>(memory) + sizeof(NodeBarrier)),
      slice_(SliceBytes(bytes, rank, ranks)) {}

bool NodeAllreduce::Run(const std::vector<Segment>& segments, const Arithmetic& arithmetic,
                        double prescale, double postscale, const CrossReduce& cross,
                        std::uint64_t tag, const std::atomic<bool>& stop, WaitCounts& counts) {
  Call call(segments, arithmetic, prescale, postscale, cross, copies_);
  const std::int64_t bytes = call.data.Bytes();
  const bool flat = !cross && bytes * ranks_ <= std::min(kFlat, slice_ * ranks_ * ranks_);
  Announced(Row(call.first, rank_)) = {tag, bytes};
  if (flat) {
    call.Contribute(0, bytes, Place(copies_++, rank_, 0));
  } else {
    call.Cut(ranks_, slice_);
    CopyIn(call, 0);
  }
  if (!Meet(stop, counts)) return false;
  CompareAnnouncements(call);
  if (!flat) return RunChunks(call, stop, counts);
  ReduceAll(call);
  return true;
}

void NodeAllreduce::Kick() { barrier_->Kick(); }

bool NodeAllreduce::Meet(const std::atomic<bool>& stop, WaitCounts& counts) {
  return barrier_->Pass(++barriers_, ranks_, stop, counts);
}

void NodeAllreduce::CompareAnnouncements(const Call& call) const {
  const Announcement& first = Announced(Row(call.first, 0));
  for (int rank = 1; rank < ranks_; ++rank) {
    const Announcement& other = Announced(Row(call.first, rank));
    if (other.tag == first.tag && other.bytes == first.bytes) continue;
    throw std::logic_error("local ranks 0 and " + std::to_string(rank) +
                           " reduce different buckets: " + Text(first) + " and " + Text(other));
  }
}

void NodeAllreduce::ReduceAll(const Call& call) {
  call.ForEachBlock({0, call.data.Bytes()}, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(block_, Place(call.first, 0, 0) + begin, static_cast<std::size_t>(end - begin));
    for (int rank = 1; rank < ranks_; ++rank) {
      call.Reduce(block_, Place(call.first, rank, 0) + begin, end - begin);
    }
    call.Finish(begin, end, block_);
  });
}

bool NodeAllreduce::RunChunks(const Call& call, const std::atomic<bool>& stop, WaitCounts& counts) {
  for (std::int64_t chunk = 0; chunk < call.chunks; ++chunk) {
    if (!ReduceOwn(call, chunk)) return false;
    if (chunk > 0) CopyOut(call, chunk - 1);
    if (chunk + 1 < call.chunks) CopyIn(call, chunk + 1);
    if (!Meet(stop, counts)) return false;
  }
  CopyOut(call, call.chunks - 1);
  return true;
}

void NodeAllreduce::CopyIn(const Call& call, std::int64_t chunk) {
  for (int owner = 0; owner < ranks_; ++owner) {
    if (owner == rank_) continue;
    const Call::Range slice = call.Slice(chunk, owner);
    call.Contribute(slice.begin, slice.end, Place(copies_, rank_, owner));
  }
  ++copies_;
}

bool NodeAllreduce::ReduceOwn(const Call& call, std::int64_t chunk) {
  const std::uint64_t copy = call.first + static_cast<std::uint64_t>(chunk);
  const Call::Range slice = call.Slice(chunk, rank_);
  char* const own = Place(copy, rank_, rank_);
  call.ForEachBlock(slice, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t offset = begin - slice.begin;
    char* const sum = own + offset;
    for (int rank = 0; rank < ranks_; ++rank) {
      const char* summand = Place(copy, rank, rank_) + offset;
      if (rank == rank_) {
        call.Contribute(begin, end, block_);
        summand = block_;
      }
      if (rank == 0) {
        std::memcpy(sum, summand, static_cast<std::size_t>(end - begin));
      } else {
        call.Reduce(sum, summand, end - begin);
      }
    }
    if (!call.cross) call.Finish(begin, end, sum);
  });
  if (!call.cross || slice.begin == slice.end) return true;
  if (!call.cross(own, (slice.end - slice.begin) / call.element)) return false;
  call.Finish(slice.begin, slice.end, own);
  return true;
}

void NodeAllreduce::CopyOut(const Call& call, std::int64_t chunk) const {
  const std::uint64_t copy = call.first + static_cast<std::uint64_t>(chunk);
  for (int owner = 0; owner < ranks_; ++owner) {
    if (owner == rank_) continue;
    const Call::Range slice = call.Slice(chunk, owner);
    call.data.Write(slice.begin, slice.end, Place(copy, owner, owner));
  }
}

char* NodeAllreduce::Row(std::uint64_t copy, int rank) const {
  const std::int64_t row = static_cast<std::int64_t>(sizeof(Announcement)) + ranks_ * slice_;
  return buffers_ + (static_cast<std::int64_t>(copy % 2) * ranks_ + rank) * row;
}

// Where `rank` puts what `owner` reduces.
char* NodeAllreduce::Place(std::uint64_t copy, int rank, int owner) const {
  return Row(copy, rank) + sizeof(Announcement) + owner * slice_;
}

}  // namespace horovod_opt
