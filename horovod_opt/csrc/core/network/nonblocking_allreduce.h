// Nonblocking allreduce over one rank of each group: begun and not waited for, as MPI has it. It is
// made of messages, so that any number can be under way, begun in another order on each member.
//
// Why no order of beginning can lead to a deadlock. Each allreduce has channels of its own, and
// buffers for one chunk whatever others have taken, so the messages of one never wait for those of
// another: neither for memory nor, on the way, for their turn (transport.h). (More chunks at a time
// if there is memory for them; the first that is not over is always one of them.) All members have
// the same schedule of the same allreduce, in which the message that a step waits for is sent in a
// step that itself waits for earlier steps only. So an allreduce that all members have begun comes
// to its end, whatever else has been begun, or has not, by any of them. And a bucket is begun on a
// member only once its group has it complete, which depends on no allreduce that is under way:
// consensus.h sees to it that every rank completes every bucket of an iteration.
//
// Invariants (each with a test that fails without it):
// 1. The channels of an allreduce are used by no other one of the member until it has ended. (Then
//    the next one of the same bucket may follow: the messages between two members stay in order.)
// 2. The messages of the first chunk say which bucket of which iteration they belong to. Nothing is
//    written to the output, and no other chunk begins, before all of them have been compared: so an
//    allreduce that some member takes back, or means otherwise, leaves no message behind. Those of
//    the other chunks are data only.
// 3. Whoever has seen a difference, or takes the allreduce back, says so in all that it still
//    sends, so that every member knows of it when it has received its last message of the first
//    chunk.
// 4. A step begins when the messages of the one before are over. So what is sent from the memory of
//    a tensor, which may be that of the sums, too, has left it before anything is written there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/elements/bucket_reduction.h"
#include "horovod_opt/csrc/core/network/allreduce_schedules.h"
#include "horovod_opt/csrc/core/network/nonblocking_collective.h"

namespace horovod_opt {

// What a member gives and gets, a chunk at a time. What lies elsewhere stays there as long as these
// functions exist: messages may be under way until then.
struct AllreduceData {
  std::int64_t bytes = 0;
  Arithmetic arithmetic;
  std::function<void(std::int64_t begin, std::int64_t end, char* to)> load;
  std::function<void(std::int64_t begin, std::int64_t end, const char* sums)> store;
  // What is done to the sums, each on one member or, where several make the same, on each of them.
  // Empty: nothing.
  std::function<void(char* sums, std::int64_t bytes)> scale;
  // Where these bytes lie, if load() and store() would do nothing but copy them: then they are sent
  // from there, and the sums are made there. Empty: nowhere.
  struct Place {
    const char* in = nullptr;  // either nullptr: they lie nowhere, or in several places
    char* out = nullptr;       // equal if in place
  };
  std::function<Place(std::int64_t begin, std::int64_t end)> place;
};

class NonblockingAllreduce : public NonblockingCollective {
 public:
  // So many chunks of an allreduce are under way at a time, each in a channel of its own.
  static constexpr int kChannels = 4;
  // Of the first chunk, and of the others, in bytes: multiples of 8. The same on all members.
  struct Sizes {
    std::int64_t first = 32 << 10;
    std::int64_t chunk = 512 << 10;
  };

  enum class Outcome {
    kDone,
    kDiffers,
    kTakenBack,  // by a member, and so by all
  };
  // Called once, by the thread that advances the allreduce.
  using OnEnd = std::function<void(Outcome outcome)>;

  // `channels`: the first of kChannels. `tag`: the same on all members that mean the same.
  NonblockingAllreduce(int members, int self, int channels, std::uint64_t tag, AllreduceData data,
                       OnEnd on_end, Sizes sizes);
  // Takes an allreduce of so many bytes back that other members have begun.
  NonblockingAllreduce(int members, int self, int channels, std::int64_t bytes, OnEnd on_end,
                       Sizes sizes);

  bool Advance(Transport& transport, BufferPool& buffers) override;
  void DumpState(StatePage& page) const override;

 private:
  struct Header;
  // The data of a chunk in pieces, so that some pieces that follow each other are one message.
  // Those of the first chunk have a header each.
  struct Chunk {
    std::int64_t number = kNone;
    std::int64_t begin = 0, bytes = 0;  // bytes of the allreduce before it, and its own
    Schedule schedule;
    std::size_t step = 0, last_sum = 0;  // the step in which this member adds for the last time
    bool is_posted = false;              // the messages of this step
    std::int64_t piece = 0, stride = 0;  // bytes of a piece, and from piece to piece in a message
    std::int64_t header = 0;             // bytes
    BufferPool::Buffer own, incoming;
    // The data as this member contributes it, and where its sums are made: in `own` or elsewhere.
    const char* in = nullptr;
    char* sums = nullptr;
    bool in_own = true;
    std::vector<bool> has_sum;  // by piece: `sums` has it, and `in` its part no more
    Transport::Operation sending, receiving;
  };
  static constexpr std::int64_t kNone = -1;

  void Begin(Chunk& chunk, BufferPool& buffers);
  // True if the chunk has come to its end.
  bool AdvanceChunk(Chunk& chunk, int channel, Transport& transport);
  void Post(Chunk& chunk, int channel, Transport& transport);
  void CompleteStep(Chunk& chunk);
  Outcome OutcomeIn(Chunk& chunk, const Step& step);
  void WriteHeaders(Chunk& chunk);
  struct Piece {
    int number;
    std::int64_t bytes;
    std::int64_t in_chunk, in_message;  // bytes before it
  };
  template <class Act>  // of a Piece
  void ForEachPiece(const Chunk& chunk, const Step::Pieces& pieces, const Act& act) const;
  std::int64_t MessageBytes(const Chunk& chunk, const Step::Pieces& pieces) const;
  std::string DumpStep(const Chunk& chunk) const;

  const int members_;
  const int self_;
  const int channels_;
  const std::uint64_t tag_;
  const AllreduceData data_;
  const OnEnd on_end_;
  const Sizes sizes_;
  const std::int64_t element_;
  const std::int64_t chunks_;
  std::int64_t begin_count_ = 0, end_count_ = 0;
  Outcome outcome_ = Outcome::kDone;  // as far as it is known
  std::vector<Chunk> pipeline_;
};

}  // namespace horovod_opt
