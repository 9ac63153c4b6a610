#include "horovod_opt/csrc/core/network/nonblocking_allreduce.h"

#include <algorithm>
#include <utility>

#include "horovod_opt/csrc/core/base/rounding.h"

namespace horovod_opt {

struct alignas(16) NonblockingAllreduce::Header {
  std::uint64_t tag;
  std::int64_t bytes;    // of the whole allreduce
  std::int64_t outcome;  // as far as the sender knows
  std::int64_t unused[5];
};

NonblockingAllreduce::NonblockingAllreduce(int members, int self, int channels, std::uint64_t tag,
                                           AllreduceData data, OnEnd on_end, Sizes sizes)
    : members_(members),
      self_(self),
      channels_(channels),
      tag_(tag),
      data_(std::move(data)),
      on_end_(std::move(on_end)),
      sizes_(sizes),
      element_(static_cast<std::int64_t>(data_.arithmetic.element)),
      chunks_(1 + CeilDiv(std::max<std::int64_t>(0, data_.bytes - sizes.first), sizes.chunk)),
      pipeline_(static_cast<std::size_t>(std::min<std::int64_t>(kChannels, chunks_))) {
  static_assert(sizeof(Header) == kCacheLine, "the data behind it begins a cache line");
}

NonblockingAllreduce::NonblockingAllreduce(int members, int self, int channels, std::int64_t bytes,
                                           OnEnd on_end, Sizes sizes)
    : NonblockingAllreduce(members, self, channels, 0,
                           {bytes, {1, nullptr, nullptr}, {}, {}, {}, {}}, std::move(on_end),
                           sizes) {
  outcome_ = Outcome::kTakenBack;
}

bool NonblockingAllreduce::Advance(Transport& transport, BufferPool& buffers) {
  const auto places = static_cast<std::int64_t>(pipeline_.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (std::int64_t place = 0; place < places; ++place) {
      Chunk& chunk = pipeline_[static_cast<std::size_t>(place)];
      if (chunk.number == kNone) {
        const bool is_next = begin_count_ < chunks_ && begin_count_ % places == place;
        if (!is_next || (begin_count_ > 0 && end_count_ == 0)) continue;
        if (begin_count_ > end_count_ && !buffers.HasRoom(2 * sizes_.chunk)) continue;
        Begin(chunk, buffers);
        progress = true;
      }
      if (!AdvanceChunk(chunk, channels_ + static_cast<int>(place), transport)) continue;
      buffers.Return(std::move(chunk.own));
      buffers.Return(std::move(chunk.incoming));
      if (outcome_ != Outcome::kDone) {
        on_end_(outcome_);
        return true;
      }
      chunk.number = kNone;
      ++end_count_;
      progress = true;
    }
  }
  if (end_count_ < chunks_) return false;
  on_end_(Outcome::kDone);
  return true;
}

void NonblockingAllreduce::Begin(Chunk& chunk, BufferPool& buffers) {
  chunk.number = begin_count_++;
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
  chunk.has_sum.assign(static_cast<std::size_t>(pieces), false);
  // A member that means something else may send more, but not more than a first chunk.
  const std::int64_t room = std::max(pieces * chunk.stride, first ? kCacheLine + sizes_.first : 0);
  chunk.incoming = buffers.Take(room);
  AllreduceData::Place place;
  if (!first && data_.place) place = data_.place(chunk.begin, chunk.begin + chunk.bytes);
  chunk.in_own = place.in == nullptr || place.out == nullptr;
  if (!chunk.in_own) {
    chunk.in = place.in;
    chunk.sums = place.out;
    return;
  }
  chunk.own = buffers.Take(room);
  chunk.in = chunk.sums = chunk.own.data.get();
  if (first) WriteHeaders(chunk);
  if (outcome_ != Outcome::kDone) return;
  ForEachPiece(chunk, {0, pieces}, [&](const Piece& piece) {
    const std::int64_t begin = chunk.begin + piece.in_chunk;
    data_.load(begin, begin + piece.bytes, chunk.sums + piece.in_message);
  });
}

void NonblockingAllreduce::WriteHeaders(Chunk& chunk) {
  for (int piece = 0; piece < chunk.schedule.pieces; ++piece) {
    *reinterpret_cast<Header*>(&chunk.own.data[piece * chunk.stride]) = {
        tag_, data_.bytes, static_cast<std::int64_t>(outcome_), {}};
  }
}

bool NonblockingAllreduce::AdvanceChunk(Chunk& chunk, int channel, Transport& transport) {
  for (;;) {
    if (!chunk.sending.done || !chunk.receiving.done) return false;
    if (chunk.is_posted) CompleteStep(chunk);
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

void NonblockingAllreduce::Post(Chunk& chunk, int channel, Transport& transport) {
  const Step& step = chunk.schedule.steps[chunk.step];
  chunk.is_posted = true;
  if (step.from != Step::kNobody) {
    const std::int64_t offset = step.incoming.begin * chunk.stride;
    char* const to = step.adds ? chunk.incoming.data.get() : chunk.sums;
    const std::int64_t room = step.adds ? chunk.incoming.bytes : chunk.own.bytes;
    const bool in_buffer = step.adds || chunk.in_own;
    transport.Receive(step.from, channel, to + offset,
                      in_buffer ? room - offset : MessageBytes(chunk, step.incoming),
                      chunk.receiving);
  }
  if (step.to != Step::kNobody) {
    // Those of one message are all sums, or none is.
    const bool sums = chunk.has_sum[static_cast<std::size_t>(step.outgoing.begin)];
    const char* const from = sums ? chunk.sums : chunk.in;
    transport.Send(step.to, channel, from + step.outgoing.begin * chunk.stride,
                   MessageBytes(chunk, step.outgoing), chunk.sending);
  }
}

void NonblockingAllreduce::CompleteStep(Chunk& chunk) {
  const Step& step = chunk.schedule.steps[chunk.step];
  const bool is_last_sum = chunk.step++ == chunk.last_sum;
  chunk.is_posted = false;
  if (step.from == Step::kNobody) return;
  if (chunk.number == 0) {
    const Outcome outcome = OutcomeIn(chunk, step);
    if (outcome_ != Outcome::kDiffers && outcome != Outcome::kDone) outcome_ = outcome;
    if (outcome_ != Outcome::kDone) return WriteHeaders(chunk);
  }
  ForEachPiece(chunk, step.incoming, [&](const Piece& piece) {
    auto has_sum = chunk.has_sum[static_cast<std::size_t>(piece.number)];
    if (step.adds) {
      char* const sums = chunk.sums + piece.in_message;
      const void* const inputs[] = {has_sum ? sums : chunk.in + piece.in_message,
                                    chunk.incoming.data.get() + piece.in_message};
      const Arithmetic& with = data_.arithmetic;
      // Recursive doubling: the other member adds the same, its own first.
      const bool both_add = step.to == step.from && step.outgoing.begin == step.incoming.begin;
      const auto add = both_add && with.commute != nullptr ? with.commute : with.reduce;
      add(sums, inputs, 2, piece.bytes / element_);
      if (is_last_sum && data_.scale) data_.scale(sums, piece.bytes);
    }
    has_sum = true;
  });
}

NonblockingAllreduce::Outcome NonblockingAllreduce::OutcomeIn(Chunk& chunk, const Step& step) {
  const BufferPool::Buffer& to = step.adds ? chunk.incoming : chunk.own;
  const auto& header =
      *reinterpret_cast<const Header*>(&to.data[step.incoming.begin * chunk.stride]);
  const std::int64_t bytes = MessageBytes(chunk, step.incoming);
  if (chunk.receiving.bytes != bytes || header.bytes != data_.bytes) return Outcome::kDiffers;
  const auto outcome = static_cast<Outcome>(header.outcome);
  // Who takes it back does not know the iteration.
  const bool compares = outcome == Outcome::kDone && outcome_ == Outcome::kDone;
  return compares && header.tag != tag_ ? Outcome::kDiffers : outcome;
}

template <class Act>
void NonblockingAllreduce::ForEachPiece(const Chunk& chunk, const Step::Pieces& pieces,
                                        const Act& act) const {
  for (int piece = pieces.begin; piece < pieces.end; ++piece) {
    const std::int64_t begin = std::min(piece * chunk.piece, chunk.bytes);
    const std::int64_t end = std::min(begin + chunk.piece, chunk.bytes);
    act(Piece{piece, end - begin, begin, piece * chunk.stride + chunk.header});
  }
}

std::int64_t NonblockingAllreduce::MessageBytes(const Chunk& chunk,
                                                const Step::Pieces& pieces) const {
  const std::int64_t begin = pieces.begin * chunk.stride, end = pieces.end * chunk.stride;
  if (chunk.header > 0) return end - begin;
  return std::min(end, chunk.bytes) - std::min(begin, chunk.bytes);
}

void NonblockingAllreduce::DumpState(StatePage& page) const {
  const bool taken_back = outcome_ == Outcome::kTakenBack;
  page.Line(1, "bucket " + std::to_string(channels_ / kChannels) + ": allreduce of " +
                   std::to_string(data_.bytes) + " bytes over " + std::to_string(members_) +
                   " groups, " + (taken_back ? "to be taken back, " : "") +
                   std::to_string(end_count_) + " of " + std::to_string(chunks_) +
                   (chunks_ == 1 ? " chunk done" : " chunks done"));
  for (const Chunk& chunk : pipeline_) {
    if (chunk.number == kNone || chunk.step >= chunk.schedule.steps.size()) continue;
    page.Line(2, "chunk " + std::to_string(chunk.number + 1) + ", step " +
                     std::to_string(chunk.step + 1) + " of " +
                     std::to_string(chunk.schedule.steps.size()) + ": " + DumpStep(chunk));
  }
}

std::string NonblockingAllreduce::DumpStep(const Chunk& chunk) const {
  const Step& step = chunk.schedule.steps[chunk.step];
  const auto message = [&](const char* done, const char* under_way,
                           const Transport::Operation& operation, int member,
                           const Step::Pieces& pieces) {
    return (operation.done ? done : under_way) + std::to_string(MessageBytes(chunk, pieces)) +
           " bytes " + (&operation == &chunk.sending ? "to" : "from") + " group " +
           std::to_string(member);
  };
  std::string text;
  if (step.to != Step::kNobody) {
    text = message("has sent ", "sends ", chunk.sending, step.to, step.outgoing);
  }
  if (step.from == Step::kNobody) return text;
  return text + (text.empty() ? "" : ", ") +
         message("has received ", "WAITS for ", chunk.receiving, step.from, step.incoming);
}

}  // namespace horovod_opt
