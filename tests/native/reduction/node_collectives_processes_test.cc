// Everything that lives in the shared segment, between real processes.
#include <random>
#include <vector>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/shared_memory/doorbell.h"
#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"
#include "horovod_opt/csrc/core/shared_memory/shared_segment.h"
#include "tests/native/reduction/node_ranks.h"
#include "tests/native/shared_memory/child.h"

namespace horovod_opt {
namespace node_collectives_processes_test {

constexpr int kRanks = 3;
constexpr int kBuckets = 5;
constexpr int kIterations = 40;
constexpr std::size_t kChunk = 1 << 14;

// Byte offsets of what is in the segment.
constexpr std::size_t kQueue = 64;
const std::size_t kBell = kQueue + ReadyQueue::Bytes();
const std::size_t kReduce = kBell + sizeof(Doorbell);
const std::size_t kBytes = kReduce + NodeCollectives::Bytes(kRanks, kChunk);

std::size_t Elements(int bucket) { return std::size_t{1} << (4 * bucket); }  // up to 16 chunks

// A rank that has its buckets ready in a random order and performs them in that of the queue. 0 if
// all results are right, else where the first wrong one is.
int Train(const SharedSegment& segment, int rank) {
  char* const base = static_cast<char*>(segment.data());
  auto& queue = *reinterpret_cast<ReadyQueue*>(base + kQueue);
  auto& bell = *reinterpret_cast<Doorbell*>(base + kBell);
  NodeCollectives reduce(base + kReduce, kBytes - kReduce, rank, kRanks);
  const Arithmetic arithmetic{sizeof(int), elementwise::Reduce<int, elementwise::Sum>, nullptr};
  const std::atomic<bool> stop{false};
  WaitCounts counts;
  std::mt19937 random(static_cast<unsigned>(rank));
  std::vector<int> buckets(kBuckets);
  for (int i = 0; i < kBuckets; ++i) buckets[i] = i;
  std::uint64_t position = 0;
  for (int iteration = 1; iteration <= kIterations; ++iteration) {
    std::shuffle(buckets.begin(), buckets.end(), random);
    for (int bucket : buckets) queue.Ready(bucket, kRanks);
    for (int i = 0; i < kBuckets; ++i) {
      int bucket;
      if (!queue.Next(position++, bucket, stop, counts)) return 1;
      std::vector<int> values(Elements(bucket), iteration * (rank + 1));
      const std::int64_t bytes = static_cast<std::int64_t>(values.size() * sizeof(int));
      if (!reduce.Allreduce({{{values.data(), values.data(), bytes}}, arithmetic, 1, 1},
                            static_cast<std::uint64_t>(bucket), stop, counts)) {
        return 2;
      }
      if (values != std::vector<int>(values.size(), iteration * 6)) return 3;
    }
    const std::uint64_t round = static_cast<std::uint64_t>(iteration);
    if (iteration % kRanks == rank) bell.Signal(round);
    if (!bell.Wait(round, futex::kForever, stop)) return 4;
  }
  return 0;
}

TEST(NodeProcesses, ShareLogDoorbellAndReduction) {
  const Descriptor file = NewSegmentFile(kBytes);
  const SharedSegment segment = SharedSegment::Map(file, kBytes);
  std::vector<Child> children;
  for (int rank = 1; rank < kRanks; ++rank) {
    children.emplace_back([&, rank] {
      // At another address in each: where the others have theirs is something else.
      std::vector<SharedSegment> before;
      for (int i = 0; i < rank; ++i) before.push_back(SharedSegment::Map(file, kBytes));
      const SharedSegment own = SharedSegment::Map(file, kBytes);
      return Train(own, rank);
    });
  }
  EXPECT_EQ(Train(segment, 0), 0);
  for (Child& child : children) EXPECT_EQ(child.Status(), 0);
}

}  // namespace node_collectives_processes_test
}  // namespace horovod_opt
