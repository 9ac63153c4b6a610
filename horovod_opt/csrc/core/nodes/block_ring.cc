#include "horovod_opt/csrc/core/nodes/block_ring.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace horovod_opt {

BlockRing::BlockRing(Kind kind, int members, int self, int channels, char* memory,
                     const std::vector<Block>& blocks, const Arithmetic& arithmetic,
                     std::function<void()> ended, std::int64_t chunk)
    : kind_(kind),
      next_((self + 1) % members),
      before_((self + members - 1) % members),
      channels_(channels),
      memory_(memory),
      arithmetic_(arithmetic),
      ended_(std::move(ended)),
      chunk_(chunk) {
  // A block to be gathered begins at its member, one to be added up at the member after its own.
  const int first = kind == Kind::kAllgather ? self : before_;
  const auto block = [&](int turn) { return blocks[(first - turn + members) % members]; };
  for (int turn = 0; turn < members - 1; ++turn) {
    Append(sent_, block(turn));
    if (turn == 0) own_ = sent_.chunks.size();
    Append(received_, block(turn + 1));
  }
}

void BlockRing::Append(Stream& stream, const Block& block) const {
  for (std::int64_t begin = 0; begin < block.bytes; begin += chunk_) {
    stream.chunks.push_back({block.begin + begin, std::min(chunk_, block.bytes - begin)});
  }
}

bool BlockRing::Advance(Transport& transport, BufferPool& buffers) {
  for (bool moved = true; moved;) {
    moved = Receive(transport, buffers);
    moved = Send(transport, buffers) || moved;
  }
  if (!sent_.IsOver() || !received_.IsOver()) return false;
  ended_();
  return true;
}

bool BlockRing::MayBegin(const Stream& stream, bool in_memory, const BufferPool& buffers) const {
  if (stream.begun == stream.chunks.size() || stream.begun == stream.over + kWindow) return false;
  return in_memory || stream.begun == stream.over || buffers.HasRoom(chunk_);
}

bool BlockRing::Receive(Transport& transport, BufferPool& buffers) {
  Stream& stream = received_;
  bool moved = false;
  for (; stream.over < stream.begun; ++stream.over) {
    Place& place = stream.At(stream.over);
    if (!place.operation.done) break;
    Take(stream.chunks[stream.over], place);
    buffers.Return(std::exchange(place.buffer, {}));
    moved = true;
  }
  const bool in_memory = kind_ == Kind::kAllgather && transport.CanBeGivenUp();
  for (; MayBegin(stream, in_memory, buffers); ++stream.begun) {
    const Block& chunk = stream.chunks[stream.begun];
    Place& place = stream.At(stream.begun);
    if (!in_memory) place.buffer = buffers.Take(chunk.bytes);
    transport.Receive(before_, channels_ + static_cast<int>(stream.begun % kWindow),
                      in_memory ? memory_ + chunk.begin : place.buffer.data.get(), chunk.bytes,
                      place.operation);
    moved = true;
  }
  return moved;
}

void BlockRing::Take(const Block& chunk, const Place& place) {
  char* const to = memory_ + chunk.begin;
  if (kind_ == Kind::kReduceScatter) {
    const void* const inputs[] = {to, place.buffer.data.get()};
    arithmetic_.reduce(to, inputs, 2,
                       chunk.bytes / static_cast<std::int64_t>(arithmetic_.element));
  } else if (place.buffer.data != nullptr) {
    std::memcpy(to, place.buffer.data.get(), static_cast<std::size_t>(chunk.bytes));
  }
}

bool BlockRing::Send(Transport& transport, BufferPool& buffers) {
  Stream& stream = sent_;
  bool moved = false;
  for (; stream.over < stream.begun; ++stream.over) {
    Place& place = stream.At(stream.over);
    if (!place.operation.done) break;
    buffers.Return(std::exchange(place.buffer, {}));
    moved = true;
  }
  const bool in_memory = transport.CanBeGivenUp();
  const auto is_there = [&] { return stream.begun < own_ + received_.over; };
  for (; is_there() && MayBegin(stream, in_memory, buffers); ++stream.begun) {
    const Block& chunk = stream.chunks[stream.begun];
    Place& place = stream.At(stream.begun);
    const char* from = memory_ + chunk.begin;
    if (!in_memory) {
      place.buffer = buffers.Take(chunk.bytes);
      std::memcpy(place.buffer.data.get(), from, static_cast<std::size_t>(chunk.bytes));
      from = place.buffer.data.get();
    }
    transport.Send(next_, channels_ + static_cast<int>(stream.begun % kWindow), from, chunk.bytes,
                   place.operation);
    moved = true;
  }
  return moved;
}

}  // namespace horovod_opt
