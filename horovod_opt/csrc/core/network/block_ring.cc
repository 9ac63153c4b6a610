#include "horovod_opt/csrc/core/network/block_ring.h"

#include <algorithm>
#include <utility>

namespace horovod_opt {

BlockRing::BlockRing(Kind kind, int members, int self, int channels, Memory memory,
                     const std::vector<Block>& blocks, const Arithmetic& arithmetic,
                     std::function<void()> ended, std::int64_t chunk)
    : kind_(kind),
      next_((self + 1) % members),
      before_((self + members - 1) % members),
      channels_(channels),
      memory_(memory),
      result_(blocks[self]),
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

bool BlockRing::Receive(Transport& transport, BufferPool& buffers) {
  Stream& stream = received_;
  bool moved = false;
  for (; stream.over < stream.begun; ++stream.over) {
    Place& place = stream.At(stream.over);
    if (!place.operation.done) break;
    if (kind_ == Kind::kReduceScatter) {
      Add(stream.chunks[stream.over], std::exchange(place.buffer, {}), buffers);
    }
    moved = true;
  }
  // Beside those under way another one is received only if there is memory for it.
  const auto has_memory = [&] {
    return kind_ == Kind::kAllgather || stream.begun == stream.over || buffers.HasRoom(chunk_);
  };
  for (; stream.MayBegin() && has_memory(); ++stream.begun) {
    const Block& chunk = stream.chunks[stream.begun];
    Place& place = stream.At(stream.begun);
    if (kind_ == Kind::kReduceScatter) place.buffer = buffers.Take(chunk.bytes);
    transport.Receive(before_, channels_ + static_cast<int>(stream.begun % kWindow),
                      kind_ == Kind::kReduceScatter ? place.buffer.data.get()
                                                    : memory_.result + chunk.begin,
                      chunk.bytes, place.operation);
    moved = true;
  }
  return moved;
}

void BlockRing::Add(const Block& chunk, BufferPool::Buffer received, BufferPool& buffers) {
  const bool complete = own_ + received_.over >= sent_.chunks.size();
  char* const to = complete ? memory_.result + (chunk.begin - result_.begin) : received.data.get();
  const void* const inputs[] = {memory_.contributed + chunk.begin, received.data.get()};
  arithmetic_.reduce(to, inputs, 2, chunk.bytes / static_cast<std::int64_t>(arithmetic_.element));
  if (complete) {
    buffers.Return(std::move(received));
  } else {
    sums_.push_back(std::move(received));
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
  const auto is_there = [&] { return stream.begun < own_ + received_.over; };
  for (; stream.MayBegin() && is_there(); ++stream.begun) {
    const Block& chunk = stream.chunks[stream.begun];
    Place& place = stream.At(stream.begun);
    const char* from = kind_ == Kind::kAllgather ? memory_.result : memory_.contributed;
    from += chunk.begin;
    if (kind_ == Kind::kReduceScatter && stream.begun >= own_) {
      place.buffer = std::move(sums_.front());
      sums_.pop_front();
      from = place.buffer.data.get();
    }
    transport.Send(next_, channels_ + static_cast<int>(stream.begun % kWindow), from, chunk.bytes,
                   place.operation);
    moved = true;
  }
  return moved;
}

}  // namespace horovod_opt
