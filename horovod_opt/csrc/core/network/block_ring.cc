#include "horovod_opt/csrc/core/network/block_ring.h"

#include <algorithm>
#include <string>
#include <utility>

namespace horovod_opt {

BlockRing::BlockRing(Kind kind, int members, int self, int channels, Memory memory,
                     const std::vector<Block>& blocks, const Arithmetic& arithmetic,
                     std::function<void()> on_end, std::int64_t chunk)
    : kind_(kind),
      next_((self + 1) % members),
      before_((self + members - 1) % members),
      channels_(channels),
      memory_(memory),
      result_(blocks[self]),
      arithmetic_(arithmetic),
      on_end_(std::move(on_end)),
      chunk_(chunk) {
  // A block to be gathered begins at its member, one to be added up at the member after its own.
  const int first = kind == Kind::kAllgather ? self : before_;
  const auto block = [&](int step) { return blocks[(first - step + members) % members]; };
  for (int step = 0; step < members - 1; ++step) {
    Append(outgoing_, block(step));
    if (step == 0) own_ = outgoing_.chunks.size();
    Append(incoming_, block(step + 1));
  }
}

void BlockRing::Append(Stream& stream, const Block& block) const {
  for (std::int64_t begin = 0; begin < block.bytes; begin += chunk_) {
    stream.chunks.push_back({block.begin + begin, std::min(chunk_, block.bytes - begin)});
  }
}

bool BlockRing::Advance(Transport& transport, BufferPool& buffers) {
  for (bool progress = true; progress;) {
    progress = Receive(transport, buffers);
    progress = Send(transport, buffers) || progress;
  }
  if (!outgoing_.IsOver() || !incoming_.IsOver()) return false;
  on_end_();
  return true;
}

bool BlockRing::Receive(Transport& transport, BufferPool& buffers) {
  Stream& stream = incoming_;
  bool progress = false;
  for (; stream.over < stream.begun; ++stream.over) {
    Place& place = stream.At(stream.over);
    if (!place.operation.done) break;
    if (kind_ == Kind::kReduceScatter) {
      Add(stream.chunks[stream.over], std::exchange(place.buffer, {}), buffers);
    }
    progress = true;
  }
  // Beside those under way another one is received only if there is memory for it.
  const auto has_memory = [&] {
    return kind_ == Kind::kAllgather || stream.begun == stream.over || buffers.HasRoom(chunk_);
  };
  for (; stream.MayBegin() && has_memory(); ++stream.begun) {
    const Block& chunk = stream.chunks[stream.begun];
    Place& place = stream.At(stream.begun);
    if (kind_ == Kind::kReduceScatter) place.buffer = buffers.Take(chunk.bytes);
    transport.Receive(
        before_, channels_ + static_cast<int>(stream.begun % kChannels),
        kind_ == Kind::kReduceScatter ? place.buffer.data.get() : memory_.result + chunk.begin,
        chunk.bytes, place.operation);
    progress = true;
  }
  return progress;
}

void BlockRing::Add(const Block& chunk, BufferPool::Buffer incoming, BufferPool& buffers) {
  const bool complete = own_ + incoming_.over >= outgoing_.chunks.size();
  char* const to = complete ? memory_.result + (chunk.begin - result_.begin) : incoming.data.get();
  const void* const inputs[] = {memory_.contributed + chunk.begin, incoming.data.get()};
  arithmetic_.reduce(to, inputs, 2, chunk.bytes / static_cast<std::int64_t>(arithmetic_.element));
  if (complete) {
    buffers.Return(std::move(incoming));
  } else {
    sums_.push_back(std::move(incoming));
  }
}

bool BlockRing::Send(Transport& transport, BufferPool& buffers) {
  Stream& stream = outgoing_;
  bool progress = false;
  for (; stream.over < stream.begun; ++stream.over) {
    Place& place = stream.At(stream.over);
    if (!place.operation.done) break;
    buffers.Return(std::exchange(place.buffer, {}));
    progress = true;
  }
  const auto is_there = [&] { return stream.begun < own_ + incoming_.over; };
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
    transport.Send(next_, channels_ + static_cast<int>(stream.begun % kChannels), from, chunk.bytes,
                   place.operation);
    progress = true;
  }
  return progress;
}

void BlockRing::DumpState(StatePage& page) const {
  const auto progress = [](const Stream& stream) {
    std::int64_t bytes = 0, over = 0;
    for (std::size_t number = 0; number < stream.chunks.size(); ++number) {
      bytes += stream.chunks[number].bytes;
      if (number < stream.over) over += stream.chunks[number].bytes;
    }
    return std::to_string(over) + " of " + std::to_string(bytes) + " bytes";
  };
  page.Line(1, "bucket " + std::to_string(channels_ / kChannels) +
                   (kind_ == Kind::kAllgather ? ": ring allgather" : ": ring reduce-scatter") +
                   ", has sent " + progress(outgoing_) + " to group " + std::to_string(next_) +
                   ", has received " + progress(incoming_) + " from group " +
                   std::to_string(before_));
}

}  // namespace horovod_opt
