// Calls of NodeCollectives::Allreduce() that do not end with a result.
#include <memory>
#include <stdexcept>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {
namespace node_collectives_end_test {

constexpr int kRanks = 3;
constexpr std::size_t kChunk = 1 << 10;
constexpr std::int64_t kChunks = 4;
constexpr std::int64_t kMany = kChunks * kChunk / sizeof(float);  // elements

struct Gone : std::runtime_error {
  using runtime_error::runtime_error;
};

// How many reductions this rank still makes before it leaves Allreduce() by an exception.
thread_local int reductions_left = 1 << 30;

void AddOrLeave(void* out, const void* const* inputs, int number, std::int64_t count) {
  if (reductions_left-- == 0) throw Gone("rank is gone");
  elementwise::Reduce<float, elementwise::Sum>(out, inputs, number, count);
}

const Arithmetic kFloats{sizeof(float), AddOrLeave, nullptr};

class NodeAllreduceEnd : public testing::Test {
 protected:
  NodeAllreduceEnd() {
    for (int rank = 0; rank < kRanks; ++rank) {
      reduce_.push_back(
          std::make_unique<NodeCollectives>(memory_.data(), memory_.size(), rank, kRanks));
    }
  }

  bool Run(int rank, std::vector<float>& values, std::uint64_t tag = 0) {
    WaitCounts counts;
    const std::int64_t bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
    return reduce_[rank]->Allreduce({{{values.data(), values.data(), bytes}}, kFloats, 1, 1}, tag,
                                    stop_, counts);
  }

  const Zeros memory_{NodeCollectives::Bytes(kRanks, kChunk)};
  std::vector<std::unique_ptr<NodeCollectives>> reduce_;
  std::atomic<bool> stop_{false};
};

// When the rank that the others wait for is gone.
struct Phase {
  std::int64_t elements;
  int barriers;  // that it still arrives at
  bool kick;
};

class NodeAllreduceStop : public NodeAllreduceEnd, public testing::WithParamInterface<Phase> {};

std::vector<Phase> AllPhases() {
  std::vector<Phase> phases;
  for (const bool kick : {true, false}) {
    phases.push_back({1, 0, kick});  // flat: there is one barrier
    for (int barriers = 0; barriers <= kChunks; ++barriers) {
      phases.push_back({kMany, barriers, kick});
    }
  }
  return phases;
}

std::string Name(const testing::TestParamInfo<Phase>& phase) {
  return std::to_string(phase.param.elements) + "ElementsAfter" +
         std::to_string(phase.param.barriers) + (phase.param.kick ? "Kicked" : "Unkicked");
}

INSTANTIATE_TEST_SUITE_P(Phases, NodeAllreduceStop, testing::ValuesIn(AllPhases()), Name);

TEST_P(NodeAllreduceStop, EndsTheWaitForARankThatIsGone) {
  const Phase phase = GetParam();
  const auto wait = [&](int rank) {
    std::vector<float> values(static_cast<std::size_t>(phase.elements), 1);
    EXPECT_FALSE(Run(rank, values));
  };
  Sleeper first([&] { wait(0); });
  Sleeper last([&] { wait(2); });
  if (phase.barriers > 0) {
    // After each barrier it adds up the ranks' slices, which are one block.
    reductions_left = phase.barriers - 1;
    std::vector<float> values(static_cast<std::size_t>(phase.elements), 1);
    EXPECT_THROW(Run(1, values), Gone);
  }
  first.AwaitSleep();
  last.AwaitSleep();
  stop_ = true;
  if (phase.kick) reduce_[1]->Kick();
  first.Join();
  last.Join();
}

// Calls of every pair of lengths: the ranks may not even agree whether there are several chunks.
TEST_F(NodeAllreduceEnd, RanksThatReduceDifferentBucketsAllSaySo) {
  struct Calls {
    std::size_t elements[kRanks];
    std::uint64_t tags[kRanks];
    std::string text;
  };
  const std::size_t many = kMany;
  const std::string start = "local ranks 0 and ";
  for (const Calls& calls : std::vector<Calls>{
           {{1, 1, 1}, {5, 6, 5}, "1 have different buckets: tag 5 of 4 bytes and tag 6 of 4"},
           {{9, 9, many}, {5, 5, 5}, "2 have different buckets: tag 5 of 36 bytes and tag 5"},
           {{many, many, many}, {1, 1, 2}, "2 have different buckets: tag 1 of 4096"},
           {{many, 3, 3}, {1, 1, 1}, "1 have different buckets: tag 1 of 4096"}}) {
    OnRanks(kRanks, [&](int rank) {
      std::vector<float> values(calls.elements[rank], 1);
      try {
        Run(rank, values, calls.tags[rank]);
        ADD_FAILURE() << "no error on rank " << rank;
      } catch (const std::logic_error& error) {
        EXPECT_EQ(std::string(error.what()).substr(0, start.size() + calls.text.size()),
                  start + calls.text);
      }
      EXPECT_EQ(values, std::vector<float>(calls.elements[rank], 1)) << "rank " << rank;
      // The ranks are still in step.
      for (const std::size_t elements : {many, std::size_t{2}}) {
        std::vector<float> next(elements, static_cast<float>(rank + 1));
        EXPECT_TRUE(Run(rank, next));
        EXPECT_EQ(next, std::vector<float>(elements, 6)) << "rank " << rank;
      }
    });
  }
}

TEST_F(NodeAllreduceEnd, TellsInWhichBarrierARankWaits) {
  std::vector<float> values[kRanks];
  for (auto& of_rank : values) of_rank = {1};
  const auto run = [&](int rank) { EXPECT_TRUE(Run(rank, values[rank])); };
  EXPECT_EQ(reduce_[0]->DescribeBarrier(), "");
  Sleeper first([&] { run(0); });
  first.AwaitSleep();
  EXPECT_EQ(reduce_[0]->DescribeBarrier(),
            "in barrier 1 of the node, to which 1 of 3 ranks have come");
  EXPECT_EQ(reduce_[2]->DescribeBarrier(), "");
  Sleeper second([&] { run(1); });
  second.AwaitSleep();
  EXPECT_EQ(reduce_[0]->DescribeBarrier(),
            "in barrier 1 of the node, to which 2 of 3 ranks have come");
  run(2);
  first.Join();
  second.Join();
  EXPECT_EQ(reduce_[0]->DescribeBarrier(), "");
}

TEST_F(NodeAllreduceEnd, RefusesPartsOfElements) {
  std::vector<char> values(8);
  WaitCounts counts;
  for (const std::int64_t bytes : {-4, 3, 5}) {
    EXPECT_THROW(reduce_[0]->Allreduce({{{values.data(), values.data(), bytes}}, kFloats, 1, 1}, 0,
                                       stop_, counts),
                 std::invalid_argument);
  }
}

TEST_F(NodeAllreduceEnd, RefusesTooLittleMemoryAndRanksThatAreNone) {
  const std::size_t least = NodeCollectives::Bytes(kRanks, 1);
  EXPECT_NO_THROW(NodeCollectives(memory_.data(), least, 0, kRanks));
  EXPECT_THROW(NodeCollectives(memory_.data(), least - 1, 0, kRanks), std::invalid_argument);
  EXPECT_THROW(NodeCollectives(memory_.data(), memory_.size(), kRanks, kRanks),
               std::invalid_argument);
  EXPECT_THROW(NodeCollectives(memory_.data(), memory_.size(), -1, kRanks), std::invalid_argument);
}

}  // namespace node_collectives_end_test
}  // namespace horovod_opt
