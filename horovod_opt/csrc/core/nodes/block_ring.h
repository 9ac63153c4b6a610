// Blocks of any sizes, one for each member, that go round a ring of one rank of each group: an
// allgather or a reduce-scatter, begun and not waited for. Each member sends and receives all
// blocks but one, so no byte is sent more often than it has to be (the bucket algorithms of Chan,
// Heimlich, Purkayastha and van de Geijn, DOI 10.1002/cpe.1206).
//
// Invariants (each with a test that fails without it):
// 1. It begins on a member when an exchange on the same channels has ended there, which all members
//    have taken part in and which has told all of them the sizes. So nobody takes it back or means
//    something else, and its messages are data only. They follow those of the exchange.
// 2. What a member sends n-th is what the next one receives n-th: both follow from the sizes alone.
//    It goes through channel n modulo kWindow.
// 3. A chunk goes on when it has been received, and added up if it is a reduce-scatter.
//
// Why it cannot come to a standstill: a chunk on its h-th hop waits for the same chunk on the hop
// before, at another member, and for chunks that the same member sends or receives earlier, which
// are on no later hop. So of all that is not over the first chunk on the earliest hop can go on.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "horovod_opt/csrc/core/nodes/nonblocking.h"
#include "horovod_opt/csrc/core/shm/bucket_reduction.h"

namespace horovod_opt {

class BlockRing : public Nonblocking {
 public:
  static constexpr int kWindow = 4;  // channels, and chunks that are under way each way at a time

  struct Block {
    std::int64_t begin = 0, bytes = 0;  // in the memory
  };
  enum class Kind {
    kAllgather,      // the member's own block is there, in the end all are
    kReduceScatter,  // what the member contributes to each is there, in the end its own is the sum
  };

  // `channels`: the first of kWindow. `blocks`: by member, whole elements, of the same sizes on every
  // member; in `memory`, which stays until it has ended. `arithmetic`: of a reduce-scatter. `ended`:
  // called once, by the thread that advances it. `chunk`: bytes, whole elements.
  BlockRing(Kind kind, int members, int self, int channels, char* memory,
            const std::vector<Block>& blocks, const Arithmetic& arithmetic,
            std::function<void()> ended, std::int64_t chunk);

  bool Advance(Transport& transport, BufferPool& buffers) override;

 private:
  struct Place {
    Transport::Operation operation;
    BufferPool::Buffer buffer;  // none: the message lies in the memory
  };
  // Chunks in one direction, the first `over` of the first `begun` of them are.
  struct Stream {
    std::vector<Block> chunks;
    std::size_t begun = 0, over = 0;
    std::array<Place, kWindow> places;

    Place& At(std::size_t number) { return places[number % kWindow]; }
    bool IsOver() const { return over == chunks.size(); }
  };

  void Append(Stream& stream, const Block& block) const;
  // The next one may begin; another one beside those under way only if there is memory for it.
  bool MayBegin(const Stream& stream, bool in_memory, const BufferPool& buffers) const;
  bool Receive(Transport& transport, BufferPool& buffers);
  bool Send(Transport& transport, BufferPool& buffers);
  void Take(const Block& chunk, const Place& place);

  const Kind kind_;
  const int next_, before_, channels_;
  char* const memory_;
  const Arithmetic arithmetic_;
  const std::function<void()> ended_;
  const std::int64_t chunk_;
  std::size_t own_ = 0;  // chunks that are sent without having been received
  Stream sent_, received_;
};

}  // namespace horovod_opt
