// HorovodOpsOrder with all the ranks of all groups; ThreadSanitizer looks on.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "tests/native/reduction/leaders.h"

namespace horovod_opt {
namespace horovod_ops_order_ranks_test {

constexpr int kIds = 40;
constexpr int kIterations = 30;
constexpr std::uint64_t kEntries = kIds * kIterations;

struct Job {
  int leaders;
  int ranks;  // of each group
  int seed;
};

// Of each rank, of each bucket ID, the iteration in which it was ready: written before Ready() and
// read without any lock. Of two iterations, as a rank may be ready for the next one while others
// read.
using Written = std::vector<std::vector<int>>;

// Has its bucket IDs ready in an order of its own, anew after it has performed them.
class Rank {
 public:
  Rank(const Leader& leader, int group_size, const std::vector<std::unique_ptr<Rank>>& all,
       unsigned seed)
      : leader_(leader), group_size_(group_size), all_(all), random_(seed) {
    std::iota(todo_.begin(), todo_.end(), 0);
  }

  // Until `finish` is set and the ready queue ends, or until all iterations are over.
  void Train(const std::atomic<bool>& finish, const std::atomic<bool>& end) {
    const std::atomic<bool> only_look{true};
    for (std::uint64_t position = 0; position < kEntries;) {
      if (random_() % 4 == 0) Delay();
      if (finish) todo_.clear();
      const bool must_wait = todo_.empty();
      if (!must_wait && random_() % 2 == 0) MakeReady();
      int bucket_id;
      if (leader_.order().Next(position, bucket_id, must_wait ? end : only_look, counts_)) {
        Perform(bucket_id);
        performed_.store(++position);
      } else if (must_wait) {
        return;
      } else if (!todo_.empty()) {
        MakeReady();
      }
    }
  }

  std::uint64_t performed() const { return performed_; }
  const std::vector<int>& order() const { return order_; }

 private:
  void Delay() {
    if (random_() % 16 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
    } else {
      std::this_thread::yield();
    }
  }

  void MakeReady() {
    std::swap(todo_[random_() % todo_.size()], todo_.back());
    const int bucket_id = todo_.back();
    todo_.pop_back();
    const int iteration = iterations_[bucket_id];
    written_[iteration % 2][bucket_id] = iteration;
    leader_.ready().Ready(bucket_id, group_size_);
  }

  void Perform(int bucket_id) {
    const int iteration = iterations_[bucket_id]++;
    // Invariant 2.
    for (const auto& rank : all_) EXPECT_EQ(rank->written_[iteration % 2][bucket_id], iteration);
    order_.push_back(bucket_id);
    if (iteration + 1 < kIterations) todo_.push_back(bucket_id);
  }

  const Leader& leader_;
  const int group_size_;
  const std::vector<std::unique_ptr<Rank>>& all_;
  std::mt19937 random_;
  Written written_ = Written(2, std::vector<int>(kIds, -1));
  std::vector<int> todo_ = std::vector<int>(kIds);
  std::vector<int> iterations_ = std::vector<int>(kIds);  // performed
  std::vector<int> order_;
  std::atomic<std::uint64_t> performed_{0};
  WaitCounts counts_;
};

class HorovodOpsOrderRanks : public testing::TestWithParam<Job> {
 protected:
  HorovodOpsOrderRanks() : meeting_(GetParam().leaders), random_(GetParam().seed) {
    for (int group = 0; group < GetParam().leaders; ++group) {
      leaders_.push_back(std::make_unique<Leader>(meeting_));
      for (int i = 0; i < GetParam().ranks; ++i) {
        ranks_.push_back(
            std::make_unique<Rank>(*leaders_[group], GetParam().ranks, ranks_, random_()));
      }
    }
  }

  // All finish, and all leaders end when the first rank has performed so many entries.
  void Train(std::uint64_t until) {
    std::atomic<bool> finish{false}, end{false};
    for (const auto& leader : leaders_) leader->Start();
    std::thread ends([&] {
      while (ranks_[0]->performed() < until) std::this_thread::yield();
      finish = true;
      std::shuffle(leaders_.begin(), leaders_.end(), random_);
      for (const auto& leader : leaders_) {
        leader->Close();
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 300));
      }
      for (const auto& leader : leaders_) EXPECT_TRUE(leader->Join());
      end = true;  // nobody appends any more
      for (const auto& leader : leaders_) leader->order().Kick();
    });
    OnRanks(static_cast<int>(ranks_.size()), [&](int rank) { ranks_[rank]->Train(finish, end); });
    ends.join();
    // Invariants 1 and 4.
    const std::vector<int>& order = ranks_[0]->order();
    for (const auto& rank : ranks_) EXPECT_EQ(rank->order(), order);
    for (const auto& leader : leaders_) EXPECT_EQ(leader->Order(), order);
  }

  Meeting meeting_;
  std::mt19937 random_;
  std::vector<std::unique_ptr<Leader>> leaders_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

std::string Name(const testing::TestParamInfo<Job>& job) {
  return std::to_string(job.param.leaders) + "Leaders" + std::to_string(job.param.ranks) +
         "RanksSeed" + std::to_string(job.param.seed);
}

INSTANTIATE_TEST_SUITE_P(Jobs, HorovodOpsOrderRanks,
                         testing::Values(Job{2, 1, 0}, Job{2, 1, 1}, Job{2, 3, 2}, Job{3, 2, 3},
                                         Job{4, 1, 4}, Job{4, 3, 5}),
                         Name);

TEST_P(HorovodOpsOrderRanks, AllPerformTheSameOrderToTheLastPass) {
  Train(kEntries);
  const std::vector<int>& order = ranks_[0]->order();
  for (int bucket_id = 0; bucket_id < kIds; ++bucket_id) {
    EXPECT_EQ(std::count(order.begin(), order.end(), bucket_id), kIterations);
  }
}

TEST_P(HorovodOpsOrderRanks, AllPerformTheSameOrderUpToAnEndAtAnyTime) {
  const std::uint64_t until = random_() % kEntries;
  Train(until);
  EXPECT_GE(ranks_[0]->order().size(), until);
}

}  // namespace horovod_ops_order_ranks_test
}  // namespace horovod_opt
