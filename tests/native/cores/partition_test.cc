#include "horovod_opt/csrc/core/cores/partition.h"

#include <gtest/gtest.h>

#include <numeric>

namespace horovod_opt {
namespace partition_test {

using Cpus = std::vector<int>;

const char kWhy[] = "Mode scp needs 2 cores per rank, one of them for the background thread: ";
const char kUnbound[] =
    ": start them unbound, as horovodrun does by default (Open MPI: --bind-to none, MPICH: "
    "-bind-to none), or leave scp out of HOROVOD_OPT_MODE.";

Cpus Range(int first, int last) {
  Cpus cpus(last - first + 1);
  std::iota(cpus.begin(), cpus.end(), first);
  return cpus;
}

std::map<int, int> CoresWithoutSmt(int cores) {
  std::map<int, int> core_of;
  for (int cpu = 0; cpu < cores; ++cpu) core_of[cpu] = cpu;
  return core_of;
}

// As Linux numbers them: CPUs 0..cores-1 are the first siblings, cores..2*cores-1 the second ones.
std::map<int, int> CoresWithSmt(int cores) {
  std::map<int, int> core_of;
  for (int cpu = 0; cpu < 2 * cores; ++cpu) core_of[cpu] = cpu % cores;
  return core_of;
}

void ExpectRank(const Partition& partition, std::size_t rank, const Cpus& background,
                const Cpus& rest) {
  ASSERT_EQ(partition.error, "");
  ASSERT_LT(rank, partition.ranks.size());
  EXPECT_EQ(partition.ranks[rank].background, background) << "local rank " << rank;
  EXPECT_EQ(partition.ranks[rank].rest, rest) << "local rank " << rank;
}

void ExpectError(const Partition& partition, const std::string& error) {
  EXPECT_EQ(partition.error, error);
  EXPECT_TRUE(partition.ranks.empty());
}

TEST(Partition, OneRankAlone) {
  const auto partition = PartitionNode({Range(0, 3)}, CoresWithoutSmt(4), -1);
  ASSERT_EQ(partition.ranks.size(), 1u);
  ExpectRank(partition, 0, {3}, {0, 1, 2});
}

TEST(Partition, EqualMasksAreSharedEvenly) {
  const auto partition = PartitionNode({Range(0, 7), Range(0, 7)}, CoresWithoutSmt(8), -1);
  ExpectRank(partition, 0, {3}, {0, 1, 2});
  ExpectRank(partition, 1, {7}, {4, 5, 6});
}

TEST(Partition, OrderAndRepetitionInAMaskDoNotMatter) {
  const auto partition = PartitionNode({{3, 1, 0, 2, 2}, {0, 1, 2, 3}}, CoresWithoutSmt(4), -1);
  ExpectRank(partition, 0, {1}, {0});
  ExpectRank(partition, 1, {3}, {2});
}

TEST(Partition, LeftoverCoresGoToTheLowerRanks) {
  const auto partition = PartitionNode(std::vector<Cpus>(3, Range(0, 7)), CoresWithoutSmt(8), -1);
  ExpectRank(partition, 0, {2}, {0, 1});
  ExpectRank(partition, 1, {5}, {3, 4});
  ExpectRank(partition, 2, {7}, {6});
}

TEST(Partition, OddNumberOfCores) {
  const auto partition = PartitionNode({Range(0, 4), Range(0, 4)}, CoresWithoutSmt(8), -1);
  ExpectRank(partition, 0, {2}, {0, 1});
  ExpectRank(partition, 1, {4}, {3});
}

TEST(Partition, DisjointMasksAreTakenAsTheyAre) {
  const auto partition = PartitionNode({{0, 2, 4}, {5, 7}}, CoresWithoutSmt(8), -1);
  ExpectRank(partition, 0, {4}, {0, 2});
  ExpectRank(partition, 1, {7}, {5});
}

TEST(Partition, TwoSocketsWithTwoRanksEach) {
  const auto partition =
      PartitionNode({Range(0, 3), Range(0, 3), Range(4, 7), Range(4, 7)}, CoresWithoutSmt(8), -1);
  ExpectRank(partition, 0, {1}, {0});
  ExpectRank(partition, 1, {3}, {2});
  ExpectRank(partition, 2, {5}, {4});
  ExpectRank(partition, 3, {7}, {6});
}

TEST(Partition, RanksOfOneGroupNeedNotBeNeighbours) {
  const auto partition =
      PartitionNode({Range(0, 3), Range(4, 7), Range(0, 3), Range(4, 7)}, CoresWithoutSmt(8), -1);
  ExpectRank(partition, 0, {1}, {0});
  ExpectRank(partition, 1, {5}, {4});
  ExpectRank(partition, 2, {3}, {2});
  ExpectRank(partition, 3, {7}, {6});
}

TEST(Partition, SiblingsStayTogether) {
  const auto partition = PartitionNode({Range(0, 7), Range(0, 7)}, CoresWithSmt(4), -1);
  ExpectRank(partition, 0, {1, 5}, {0, 4});
  ExpectRank(partition, 1, {3, 7}, {2, 6});
}

TEST(Partition, TwoSiblingsAreOneCore) {
  ExpectError(PartitionNode({{0, 4}}, CoresWithSmt(4), -1),
              std::string(kWhy) +
                  "local rank 0 has CPUs 0, 4, 1 core where 2 are needed. This "
                  "node has 4 cores, enough for its 1 rank" +
                  kUnbound);
}

TEST(Partition, MaskWithOneSiblingOfEachCore) {
  const auto partition = PartitionNode({Range(0, 3), Range(4, 7)}, CoresWithSmt(4), 0);
  ExpectRank(partition, 0, {0}, {1, 2, 3});
  ExpectRank(partition, 1, {4}, {5, 6, 7});
}

TEST(Partition, CoreNumbersGiveTheOrder) {
  // Even CPUs are the first package, odd ones the second.
  const std::map<int, int> core_of = {{0, 0}, {2, 1}, {4, 2}, {6, 3},
                                      {1, 4}, {3, 5}, {5, 6}, {7, 7}};
  const auto partition = PartitionNode({Range(0, 7), Range(0, 7)}, core_of, -1);
  ExpectRank(partition, 0, {6}, {0, 2, 4});
  ExpectRank(partition, 1, {7}, {1, 3, 5});
}

TEST(Partition, UnknownCpusAreCoresOfTheirOwn) {
  ExpectRank(PartitionNode({Range(0, 3)}, {}, -1), 0, {3}, {0, 1, 2});
  // Core 2 is known and holds CPU 0; CPU 2, of which nothing is known, is not its sibling.
  ExpectRank(PartitionNode({{0, 2}}, {{0, 2}}, -1), 0, {2}, {0});
}

TEST(Partition, CoreIndexCountsFromBothEnds) {
  const std::vector<Cpus> masks = {Range(0, 3)};
  const auto core_of = CoresWithoutSmt(4);
  ExpectRank(PartitionNode(masks, core_of, 0), 0, {0}, {1, 2, 3});
  ExpectRank(PartitionNode(masks, core_of, 1), 0, {1}, {0, 2, 3});
  ExpectRank(PartitionNode(masks, core_of, 3), 0, {3}, {0, 1, 2});
  ExpectRank(PartitionNode(masks, core_of, -1), 0, {3}, {0, 1, 2});
  ExpectRank(PartitionNode(masks, core_of, -4), 0, {0}, {1, 2, 3});
}

TEST(Partition, CoreIndexOutOfTheShare) {
  for (int index : {4, -5}) {
    ExpectError(PartitionNode({Range(0, 3)}, CoresWithoutSmt(4), index),
                "HOROVOD_OPT_SCP_CORE=" + std::to_string(index) +
                    ": local rank 0 has 4 cores, so use -4 to 3.");
  }
  // Right for rank 0 with its leftover core, one too many for rank 1.
  ExpectError(PartitionNode({Range(0, 4), Range(0, 4)}, CoresWithoutSmt(5), 2),
              "HOROVOD_OPT_SCP_CORE=2: local rank 1 has 2 cores, so use -2 to 1.");
}

TEST(Partition, OneCoreOnTheNode) {
  ExpectError(PartitionNode({{0}}, CoresWithoutSmt(1), -1),
              std::string(kWhy) +
                  "local rank 0 has CPU 0, 1 core where 2 are needed. This node "
                  "has 1 core, too few for scp: use a larger one, or leave scp "
                  "out of HOROVOD_OPT_MODE.");
}

TEST(Partition, TwoRanksOnTwoCores) {
  ExpectError(PartitionNode({{0, 1}, {0, 1}}, CoresWithoutSmt(2), -1),
              std::string(kWhy) +
                  "local ranks 0-1 share CPUs 0-1, 2 cores where 4 are needed. "
                  "This node has 2 cores: start at most 1 rank on it, or leave scp "
                  "out of HOROVOD_OPT_MODE.");
}

TEST(Partition, OneCoreShortOfEnough) {
  ExpectError(PartitionNode(std::vector<Cpus>(3, Range(0, 4)), CoresWithoutSmt(5), -1),
              std::string(kWhy) +
                  "local ranks 0-2 share CPUs 0-4, 5 cores where 6 are needed. "
                  "This node has 5 cores: start at most 2 ranks on it, or leave "
                  "scp out of HOROVOD_OPT_MODE.");
}

TEST(Partition, BoundToOneCorePerRankByTheLauncher) {
  ExpectError(PartitionNode({{0}, {1}, {2}, {3}}, CoresWithoutSmt(8), -1),
              std::string(kWhy) +
                  "local rank 0 has CPU 0, 1 core where 2 are needed (and 3 more "
                  "local ranks with too few). This node has 8 cores, enough for "
                  "its 4 ranks" +
                  kUnbound);
}

TEST(Partition, OnlyTheRankWithTooFewIsNamed) {
  ExpectError(PartitionNode({Range(0, 3), {6}}, CoresWithoutSmt(8), -1),
              std::string(kWhy) +
                  "local rank 1 has CPU 6, 1 core where 2 are needed. This node "
                  "has 8 cores, enough for its 2 ranks" +
                  kUnbound);
}

TEST(Partition, UnequalMasksThatOverlap) {
  ExpectError(PartitionNode({Range(0, 3), Range(0, 3), Range(3, 5)}, CoresWithoutSmt(8), -1),
              "Mode scp needs CPU masks that are equal or disjoint: local ranks 0-1 may use CPUs "
              "0-3, local rank 2 CPUs 3-5, both CPU 3. Bind every rank to CPUs of its own, or "
              "start them unbound, as horovodrun does by default (Open MPI: --bind-to none, MPICH: "
              "-bind-to none), or leave scp out of HOROVOD_OPT_MODE.");
}

// Whatever the number of ranks and cores, with and without SMT: an error exactly when there are
// not two cores for every rank; otherwise shares that cover the mask, share no core and differ by
// one at most.
TEST(Partition, EveryEqualMask) {
  for (int siblings : {1, 2}) {
    for (int cores = 1; cores <= 24; ++cores) {
      const auto core_of = siblings == 1 ? CoresWithoutSmt(cores) : CoresWithSmt(cores);
      for (int ranks = 1; ranks <= 12; ++ranks) {
        const std::vector<Cpus> masks(ranks, Range(0, siblings * cores - 1));
        const Partition partition = PartitionNode(masks, core_of, -1);
        ASSERT_EQ(partition.error.empty(), cores >= 2 * ranks) << cores << " " << ranks;
        if (!partition.error.empty()) continue;
        std::map<int, int> owner_of_core;
        std::map<int, int> uses_of_cpu;
        std::size_t previous = 1000;
        for (int rank = 0; rank < ranks; ++rank) {
          const RankCpus& cpus = partition.ranks[rank];
          EXPECT_EQ(cpus.background.size(), static_cast<std::size_t>(siblings));
          for (int part : {0, 1}) {
            for (int cpu : part == 0 ? cpus.background : cpus.rest) {
              ++uses_of_cpu[cpu];
              const int owner = 2 * rank + part;
              EXPECT_EQ(owner_of_core.emplace(core_of.at(cpu), owner).first->second, owner);
            }
          }
          const std::size_t size = (cpus.background.size() + cpus.rest.size()) / siblings;
          EXPECT_TRUE(size == static_cast<std::size_t>(cores / ranks) ||
                      size == static_cast<std::size_t>(cores / ranks + 1));
          EXPECT_LE(size, previous);
          previous = size;
        }
        EXPECT_EQ(uses_of_cpu.size(), static_cast<std::size_t>(siblings * cores));
        for (const auto& cpu_and_uses : uses_of_cpu) EXPECT_EQ(cpu_and_uses.second, 1);
      }
    }
  }
}

}  // namespace partition_test
}  // namespace horovod_opt
