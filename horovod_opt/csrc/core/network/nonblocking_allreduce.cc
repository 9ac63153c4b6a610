#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"

#include <algorithm>
#include <utility>

#include "horovod_opt/csrc/core/base/rounding.h"

namespace horovod_opt {

struct alignas(16) Exchange::Header {
  std::uint64_t tag;
  std::int64_t bytes;    // of the whole exchange
  std::int64_t outcome;  // as far as the sender knows
  std::int64_t unused[5];
};

Exchange::Exchange(int members, int self, int channels, std::uint64_t tag, ExchangedData data,
                   Ended ended, Sizes sizes)
    : members_(members),
      self_(self),
      channels_(channels),
      tag_(tag),
      data_(std::move(data)),
      ended_(std::move(ended)),
      sizes_(sizes),
      element_(static_cast<std::int64_t>(data_.arithmetic.element)),
      chunks_(1 + CeilDiv(std::max<std::int64_t>(0, data_.bytes - sizes.first), sizes.chunk)),
      window_(static_cast<std::size_t>(std::min<std::int64_t>(kWindow, chunks_))) {
  static_assert(sizeof(Header) == kCacheLine, "the data behind it begins a cache line");
}

Exchange::Exchange(int members, int self, int channels, std::int64_t bytes, Ended ended,
                   Sizes sizes)
    : Exchange(members, self, channels, 0, {bytes, {1, nullptr, nullptr}, {}, {}, {}, {}},
               std::move(ended), sizes) {
  outcome_ = Outcome::kTakenBack;
}

bool Exchange::Advance(Transport& transport, BufferPool& buffers) {
  const auto places = static_cast<std::int64_t>(window_.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int64_t place = 0; place < places; ++place) {
      Chunk& chunk = window_[static_cast<std::size_t>(place)];
      if (chunk.number == kNone) {
        const bool is_next = begun_ < chunks_ && begun_ % places == place;
        if (!is_next || (begun_ > 0 && over_ == 0)) continue;
        if (begun_ > over_ && !buffers.HasRoom(2 * sizes_.chunk)) continue;
        Begin(chunk, buffers);
        moved = true;
      }
      if (!Go(chunk, channels_ + static_cast<int>(place), transport)) continue;
      buffers.Return(std::move(chunk.own));
      buffers.Return(std::move(chunk.received));
      if (outcome_ != Outcome::kDone) {
        ended_(outcome_);
        return true;
      }
      chunk.number = kNone;
      ++over_;
      moved = true;
    }
  }
  if (over_ < chunks_) return false;
  ended_(Outcome::kDone);
  return true;
}

void Exchange::Begin(Chunk& chunk, BufferPool& buffers) {
  chunk.number = begun_++;
  const bool first = chunk.number == 0;
  chunk.begin = first ? 0 : sizes_.first + (chunk.number - 1) * sizes_.chunk;
  chunk.bytes = std::min(first ? sizes_.first : sizes_.chunk, data_.bytes - chunk.begin);
  chunk.schedule = ScheduleFor(members_, self_, chunk.bytes);
  chunk.step = chunk.last_sum = 0;
  for (std::size_t step = 0; step < chunk.schedule.steps.size(); ++step) {
    if (chunk.schedule.steps[step].adds) chunk.last_sum = step;
  }
  const int pieces = chunk.schedule.pieces;
  chunk.piece = CeilDiv(chunk.bytes / element_, pieces) * element_;
  chunk.header = first ? kCacheLine : 0;
  chunk.stride = first ? kCacheLine + WholeLines(chunk.piece) : chunk.piece;
  chunk.summed.assign(static_cast<std::size_t>(pieces), false);
  // A member that means something else may send more, but not more than a first chunk.
  const std::int64_t room = std::max(pieces * chunk.stride, first ? kCacheLine + sizes_.first : 0);
  chunk.received = buffers.Take(room);
  ExchangedData::Place place;
  if (!first && data_.place) place = data_.place(chunk.begin, chunk.begin + chunk.bytes);
  chunk.in_own = place.out == nullptr;
  if (!chunk.in_own) {
    chunk.in = place.in;
    chunk.sums = place.out;
    return;
  }
  chunk.own = buffers.Take(room);
  chunk.in = chunk.sums = chunk.own.data.get();
  if (first) Say(chunk);
  if (outcome_ != Outcome::kDone) return;
  ForEachPiece(chunk, {0, pieces}, [&](const Piece& piece) {
    const std::int64_t begin = chunk.begin + piece.in_chunk;
    data_.load(begin, begin + piece.bytes, chunk.sums + piece.in_message);
  });
}

void Exchange::Say(Chunk& chunk) {
  for (int piece = 0; piece < chunk.schedule.pieces; ++piece) {
    *reinterpret_cast<Header*>(&chunk.own.data[piece * chunk.stride]) = {
        tag_, data_.bytes, static_cast<std::int64_t>(outcome_), {}};
  }
}

bool Exchange::Go(Chunk& chunk, int channel, Transport& transport) {
  for (;;) {
    if (!chunk.sending.done || !chunk.receiving.done) return false;
    if (chunk.posted) Take(chunk);
    if (chunk.step < chunk.schedule.steps.size()) {
      Post(chunk, channel, transport);
      continue;
    }
    if (outcome_ != Outcome::kDone || !chunk.in_own) return true;
    ForEachPiece(chunk, {0, chunk.schedule.pieces}, [&](const Piece& piece) {
      const std::int64_t begin = chunk.begin + piece.in_chunk;
      data_.store(begin, begin + piece.bytes, chunk.sums + piece.in_message);
    });
    return true;
  }
}

void Exchange::Post(Chunk& chunk, int channel, Transport& transport) {
  const Step& step = chunk.schedule.steps[chunk.step];
  chunk.posted = true;
  if (step.from != Step::kNobody) {
    const std::int64_t offset = step.received.begin * chunk.stride;
    char* const to = step.adds ? chunk.received.data.get() : chunk.sums;
    const std::int64_t room = step.adds ? chunk.received.bytes : chunk.own.bytes;
    const bool in_buffer = step.adds || chunk.in_own;
    transport.Receive(step.from, channel, to + offset,
                      in_buffer ? room - offset : MessageBytes(chunk, step.received),
                      chunk.receiving);
  }
  if (step.to != Step::kNobody) {
    // Those of one message are all sums, or none is.
    const bool sums = chunk.summed[static_cast<std::size_t>(step.sent.begin)];
    const char* const from = sums ? chunk.sums : chunk.in;
    transport.Send(step.to, channel, from + step.sent.begin * chunk.stride,
                   MessageBytes(chunk, step.sent), chunk.sending);
  }
}

void Exchange::Take(Chunk& chunk) {
  const Step& step = chunk.schedule.steps[chunk.step];
  const bool is_last_sum = chunk.step++ == chunk.last_sum;
  chunk.posted = false;
  if (step.from == Step::kNobody) return;
  if (chunk.number == 0) {
    const Outcome heard = Heard(chunk, step);
    if (outcome_ != Outcome::kDiffers && heard != Outcome::kDone) outcome_ = heard;
    if (outcome_ != Outcome::kDone) return Say(chunk);
  }
  ForEachPiece(chunk, step.received, [&](const Piece& piece) {
    auto summed = chunk.summed[static_cast<std::size_t>(piece.number)];
    if (step.adds) {
      char* const sums = chunk.sums + piece.in_message;
      const void* const inputs[] = {summed ? sums : chunk.in + piece.in_message,
                                    chunk.received.data.get() + piece.in_message};
      data_.arithmetic.reduce(sums, inputs, 2, piece.bytes / element_);
      if (is_last_sum && data_.scale) data_.scale(sums, piece.bytes);
    }
    summed = true;
  });
}

Exchange::Outcome Exchange::Heard(Chunk& chunk, const Step& step) {
  const BufferPool::Buffer& to = step.adds ? chunk.received : chunk.own;
  const auto& header =
      *reinterpret_cast<const Header*>(&to.data[step.received.begin * chunk.stride]);
  const std::int64_t bytes = MessageBytes(chunk, step.received);
  if (chunk.receiving.bytes != bytes || header.bytes != data_.bytes) return Outcome::kDiffers;
  const auto heard = static_cast<Outcome>(header.outcome);
  // Who takes it back does not know the iteration.
  const bool compares = heard == Outcome::kDone && outcome_ == Outcome::kDone;
  return compares && header.tag != tag_ ? Outcome::kDiffers : heard;
}

template <class Act>
void Exchange::ForEachPiece(const Chunk& chunk, const Step::Pieces& pieces, const Act& act) const {
  for (int piece = pieces.begin; piece < pieces.end; ++piece) {
    const std::int64_t begin = std::min(piece * chunk.piece, chunk.bytes);
    const std::int64_t end = std::min(begin + chunk.piece, chunk.bytes);
    act(Piece{piece, end - begin, begin, piece * chunk.stride + chunk.header});
  }
}

std::int64_t Exchange::MessageBytes(const Chunk& chunk, const Step::Pieces& pieces) const {
  const std::int64_t begin = pieces.begin * chunk.stride, end = pieces.end * chunk.stride;
  if (chunk.header > 0) return end - begin;
  return std::min(end, chunk.bytes) - std::min(begin, chunk.bytes);
}

}  // namespace horovod_opt
