// A group of two ranks in shared memory, as a world of fibers: on each rank a framework's thread for
// each bucket, the thread of the planned path, and one that ends both. PlanTable, SmallBuckets,
// BucketPlaces and ReadyQueue are the product's.
#pragma once

#include "tests/native/interleaving/product.h"

namespace stepped_opt {

inline void ReduceRows(void* out, const void* const* rows, int number, std::int64_t) {
  std::int32_t sum = 0;
  for (int rank = 0; rank < number; ++rank) {
    auto* const world = ::fibers::Fibers::Running();
    world->Step(rows[rank]);
    const std::int32_t value = *static_cast<const std::int32_t*>(rows[rank]);
    world->HasRead(rows[rank], static_cast<std::uint64_t>(value));
    sum += value;
  }
  *static_cast<std::int32_t*>(out) = sum;
}

// Nothing is to be scaled: this is where the row is written.
inline void ScaleRow(void* row, std::int64_t, double) {
  auto* const world = ::fibers::Fibers::Running();
  const std::int32_t value = *static_cast<std::int32_t*>(row);
  world->HasWritten(row, static_cast<std::uint64_t>(value));
  world->Step(row);
}

}  // namespace stepped_opt

namespace horovod_opt {
namespace group_interleaving {

using namespace stepped_opt;  // NOLINT: all of the product here
using interleaving::Atomic;
using interleaving::Fibers;

constexpr int kRanks = 2;
constexpr int kWarmUp = 2;  // iterations
// Of int32, scaled once: that is where a row is written.
const Reduction kReduction{data_type::kInt32, reduce_op::kSum, 2.0, 1.0};

struct Program {
  int buckets = 1;
  int iterations = 1;   // planned ones
  bool eager = false;   // a tensor is sent again as soon as it is taken, before its sum is there
  bool copied = false;  // from a GPU: a tensor's data comes later than the tensor
  bool ends = false;    // at any time
};

// What a tensor of an iteration gives.
inline std::int32_t Value(int rank, int iteration) { return 10 * iteration + rank + 1; }

class Group : public Fibers {
 public:
  explicit Group(const Program& program);
  ~Group() override { Stop(); }

 private:
  struct Gradient : Arrival {
    Gradient(Group& group_of, int rank_of, int bucket_of, int iteration_of)
        : group(group_of), rank(rank_of), bucket(bucket_of), iteration(iteration_of) {
      bytes = sizeof(sum);
      reduction = kReduction;
      segment = {&group.ranks_[rank]->data[iteration], &sum, sizeof(sum)};
    }
    bool DataReady() override {
      return !group.program_.copied || group.ranks_[rank]->copied[iteration];
    }
    Group& group;
    const int rank, bucket, iteration;
    std::int32_t sum = 0;
  };
  struct Rank {
    std::unique_ptr<PlanTable> plans;
    stepped_opt::PathCounters counters;
    std::unique_ptr<BucketPlaces> places;
    std::unique_ptr<SmallBuckets> small_buckets;
    Atomic<bool> end{false}, stop{false}, finished{false}, path_over{false};
    Atomic<int> done[2]{};  // by bucket: a bit for each iteration that has its sum, or has failed
    Atomic<bool> copied[8]{};  // by iteration
    std::int32_t data[8]{};
    bool closed = false;
  };

  void CheckAccess(int number, const void* object) const override;
  void Framework(int number, int bucket);
  void PlannedPath(int number);
  void Copy(int number);
  void End(int number);
  void Reduce(int number, const Work& work);
  void CallBack(int number, const std::vector<ArrivalPtr>& arrivals, bool reduced);

  const Program program_;
  ReadyQueue* queue_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace group_interleaving
}  // namespace horovod_opt
