// Ring allgather and ring reduce-scatter, begun and not waited for: blocks of any sizes, one for
// each member, go round a ring of one rank of each group. Each member sends and receives all blocks
// but one, so no byte is sent more often than it has to be (the bucket algorithms of Chan,
// Heimlich, Purkayastha and van de Geijn, DOI 10.1002/cpe.1206).
//
// Invariants (each with a test that fails without it):
// 1. It begins on a member when an allreduce on the same channels has ended there, which all
//    members have taken part in and which has told all of them the sizes. So nobody takes it back
//    or means something else, and its messages are data only. They follow those of the allreduce.
// 2. What a member sends n-th is what the next one receives n-th: both follow from the sizes alone.
//    It goes through channel n modulo kChannels.
// 3. A chunk goes on when it has been received, and added up if it is a reduce-scatter: from the
//    buffer that it came in, so what the member contributes stays as it is.
//
// Why it cannot come to a standstill: a chunk on its h-th hop waits for the same chunk on the hop
// before, at another member, and for chunks that the same member sends or receives earlier, which
// are on no later hop. So of all that is not over the first chunk on the earliest hop can go on.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/network/nonblocking_collective.h"

namespace horovod_opt {

class BlockRing : public NonblockingCollective {
 public:
  static constexpr int kChannels = 4;  // channels, and chunks that are under way each way at a time

  enum class Kind { kAllgather, kReduceScatter };
  // Of an allgather, which adds nothing up.
  static constexpr Arithmetic kNoArithmetic{1, nullptr, nullptr};
  struct Block {
    std::int64_t begin = 0, bytes = 0;
  };
  // Stays as long as the ring's `on_end` does: until then messages may be under way.
  struct Memory {
    const char* contributed = nullptr;  // of a reduce-scatter: to all blocks
    // Of an allgather: all blocks; in the beginning only the member's own is there. Of a
    // reduce-scatter: the sum of its own, elsewhere than what is contributed.
    char* result = nullptr;
  };

  // `channels`: the first of kChannels. `blocks`: by member, whole elements, of the same sizes on
  // every member. `arithmetic`: of a reduce-scatter. `on_end`: called once, by the thread that
  // advances it. `chunk`: bytes, whole elements.
  BlockRing(Kind kind, int members, int self, int channels, Memory memory,
            const std::vector<Block>& blocks, const Arithmetic& arithmetic,
            std::function<void()> on_end, std::int64_t chunk);

  bool Advance(Transport& transport, BufferPool& buffers) override;
  void DumpState(StatePage& page) const override;

 private:
  struct Place {
    Transport::Operation operation;
    BufferPool::Buffer buffer;  // of a sum under way; none: the message lies in the memory
  };
  // Chunks in one direction, the first `over` of the first `begun` of them are.
  struct Stream {
    std::vector<Block> chunks;
    std::size_t begun = 0, over = 0;
    std::array<Place, kChannels> places;

    Place& At(std::size_t number) { return places[number % kChannels]; }
    bool IsOver() const { return over == chunks.size(); }
    bool MayBegin() const { return begun < chunks.size() && begun < over + kChannels; }
  };

  void Append(Stream& stream, const Block& block) const;
  bool Receive(Transport& transport, BufferPool& buffers);
  bool Send(Transport& transport, BufferPool& buffers);
  // Of a reduce-scatter.
  void Add(const Block& chunk, BufferPool::Buffer incoming, BufferPool& buffers);

  const Kind kind_;
  const int next_, before_, channels_;
  const Memory memory_;
  const Block result_;  // of a reduce-scatter
  const Arithmetic arithmetic_;
  const std::function<void()> on_end_;
  const std::int64_t chunk_;
  std::size_t own_ = 0;  // chunks that are sent without having been received
  Stream outgoing_, incoming_;
  std::deque<BufferPool::Buffer> sums_;  // to be sent, in the order in which they were received
};

}  // namespace horovod_opt
