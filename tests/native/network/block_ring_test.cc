// Members as threads; their messages come in any order that is allowed.
#include "horovod_opt/csrc/core/network/block_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/network/progress_engine.h"
#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "tests/native/network/loopback.h"
#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {
namespace block_ring_test {

using Numbers = std::vector<std::int32_t>;
using Kind = BlockRing::Kind;

constexpr std::int64_t kNumber = sizeof(std::int32_t);
constexpr std::int64_t kChunk = 64 * kNumber;
const Arithmetic kInts{kNumber, &elementwise::Reduce<std::int32_t, elementwise::Sum>, nullptr};

// Some are empty, some have several chunks; not in the order of members, with gaps between them.
std::vector<BlockRing::Block> BlocksOf(int members, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<int> order(static_cast<std::size_t>(members));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<BlockRing::Block> blocks(order.size());
  std::int64_t begin = 0;
  for (int member : order) {
    const std::int64_t sizes[] = {0, 1, 63, 64, 65, static_cast<std::int64_t>(random() % 700)};
    blocks[member] = {begin * kNumber, sizes[random() % 6] * kNumber};
    begin += blocks[member].bytes / kNumber + 1;
  }
  return blocks;
}

std::size_t NumbersOf(const std::vector<BlockRing::Block>& blocks) {
  std::int64_t end = 0;
  for (const auto& block : blocks) end = std::max(end, block.begin + block.bytes);
  return static_cast<std::size_t>(end / kNumber + 1);
}

std::int32_t Value(int member, std::size_t place, int ring) {
  return 100000 * (member + 1) + 1000 * ring + static_cast<std::int32_t>(place);
}

// What a member has before, and what it has to have afterwards.
class Memory {
 public:
  Memory(Kind kind, int members, int self, int ring)
      : self_(self), blocks_(BlocksOf(members, static_cast<unsigned>(ring) + 1)) {
    Numbers own(NumbersOf(blocks_), -1), all = own;
    for (int owner = 0; owner < members; ++owner) {
      ForEach(owner, [&](std::size_t place) {
        if (kind == Kind::kReduceScatter || owner == self) own[place] = Value(self, place, ring);
        all[place] = 0;
        for (int member = 0; member < members; ++member) {
          if (kind == Kind::kReduceScatter || member == owner)
            all[place] += Value(member, place, ring);
        }
      });
    }
    if (kind == Kind::kAllgather) {
      result_ = own;
      expected_ = all;
      return;
    }
    contributed_ = contributes_ = own;
    const BlockRing::Block& sum = blocks_[self];
    const auto begin = all.begin() + sum.begin / kNumber;
    expected_.assign(begin, begin + sum.bytes / kNumber);
    expected_.push_back(-1);  // behind it nothing is written
    result_.assign(expected_.size(), -1);
  }

  BlockRing::Memory data() {
    return {reinterpret_cast<const char*>(contributed_.data()),
            reinterpret_cast<char*>(result_.data())};
  }
  const std::vector<BlockRing::Block>& blocks() const { return blocks_; }

  void Check() const {
    EXPECT_EQ(result_, expected_) << "member " << self_;
    EXPECT_EQ(contributed_, contributes_) << "member " << self_;
  }

 private:
  template <class Act>
  void ForEach(int owner, const Act& act) const {
    const BlockRing::Block& block = blocks_[owner];
    const std::int64_t begin = block.begin / kNumber, end = begin + block.bytes / kNumber;
    for (std::int64_t place = begin; place < end; ++place) act(static_cast<std::size_t>(place));
  }

  const int self_;
  const std::vector<BlockRing::Block> blocks_;
  Numbers contributed_, contributes_, result_, expected_;
};

class BlockRingMembers : public testing::TestWithParam<std::tuple<int, Kind>> {
 protected:
  int members() const { return std::get<0>(GetParam()); }
  Kind kind() const { return std::get<1>(GetParam()); }

  std::unique_ptr<BlockRing> Ring(Memory& memory, int self, int channels,
                                  std::function<void()> ended) const {
    return std::make_unique<BlockRing>(kind(), members(), self, channels, memory.data(),
                                       memory.blocks(), kInts, std::move(ended), kChunk);
  }
};

// With memory for several chunks and for one.
TEST_P(BlockRingMembers, EveryMemberGetsWhatItHasTo) {
  for (int variant = 0; variant < 4; ++variant) {
    Loopback net;
    OnRanks(members(), [&](int self) {
      Loopback::End end(net, self, static_cast<unsigned>(self) + 1);
      end.rendezvous = (variant & 1) != 0;
      BufferPool buffers((variant & 2) != 0 ? 1 << 20 : 0);
      for (int ring = 0; ring < 5; ++ring) {  // one after the other in the same channels
        Memory memory(kind(), members(), self, ring);
        int ends = 0;
        const auto collective = Ring(memory, self, 8, [&] { ++ends; });
        while (!collective->Advance(end, buffers)) {
          end.Progress(Transport::Clock::time_point::max());
        }
        EXPECT_EQ(ends, 1);
        memory.Check();
      }
    });
    EXPECT_EQ(net.Left(), 0u) << "variant " << variant;
  }
}

// As calls do it: a word of each member, then the ring in the same channels, begun by the thread
// that ends the allreduce; many of them, in another order on each member.
TEST_P(BlockRingMembers, ManyAfterTheirAllreducesInAnyOrder) {
  constexpr int kRings = 12;
  Loopback net;
  OnRanks(members(), [&](int self) {
    auto end = std::make_unique<Loopback::End>(net, self, static_cast<unsigned>(self) + 1);
    std::vector<std::unique_ptr<Memory>> memories;
    std::atomic<int> ended{0};
    {
      ProgressEngine engine(std::move(end), self % 3 == 0 ? 0 : 1 << 20, [] {}, [] {});
      std::vector<int> order(kRings);
      std::iota(order.begin(), order.end(), 0);
      std::minstd_rand random(static_cast<unsigned>(self) + 7);
      std::shuffle(order.begin(), order.end(), random);
      for (int ring = 0; ring < kRings; ++ring) {
        memories.push_back(std::make_unique<Memory>(kind(), members(), self, ring));
      }
      for (int ring : order) {
        const auto words = std::make_shared<Words>(members());
        (*words)[self] = 1;
        const int channels = ring * BlockRing::kChannels;
        engine.Begin(std::make_unique<NonblockingAllreduce>(
            members(), self, channels, ring + 1,
            AllreduceDataOf(words, &elementwise::Reduce<std::uint64_t, elementwise::Sum>),
            [&, words, ring, channels](NonblockingAllreduce::Outcome outcome) {
              EXPECT_EQ(outcome, NonblockingAllreduce::Outcome::kDone);
              EXPECT_EQ(*words, Words(members(), 1));
              engine.Begin(Ring(*memories[ring], self, channels, [&] { ++ended; }));
            },
            NonblockingAllreduce::Sizes()));
        if (random() % 2 == 0) std::this_thread::yield();
      }
      while (ended < kRings) {
        ASSERT_EQ(engine.Failure(), "");
        std::this_thread::yield();
      }
    }
    for (const auto& memory : memories) memory->Check();
  });
  EXPECT_EQ(net.Left(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Members, BlockRingMembers,
                         testing::Combine(testing::Values(2, 3, 4, 5, 8),
                                          testing::Values(Kind::kAllgather, Kind::kReduceScatter)));

}  // namespace block_ring_test
}  // namespace horovod_opt
