// PlanTable under all the threads that use it; ThreadSanitizer looks on.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace plan_table_threads_test {

constexpr int kSlots = 4;
constexpr int kIds = 16;
constexpr int kIterations = 400;

struct Numbered : Arrival {
  explicit Numbered(int n) : number(n) {}
  const int number;
};

// One rank. The test's own threads meet in relaxed atomics only, where possible: what the table
// does not order is not ordered.
class PlanTableThreads : public testing::Test {
 protected:
  // Two framework threads: the bucket {0, 2} is filled by both of them.
  void Framework(int first_slot) {
    for (int iteration = 1; iteration <= kIterations; ++iteration) {
      for (int slot : {first_slot, first_slot + 1}) {
        ArrivalPtr arrival = std::make_unique<Numbered>(slot);
        const Route route = ArriveAt(plans_, 1 + slot, arrival);
        ASSERT_TRUE(route == Route::kNegotiated || route == Route::kPlanned ||
                    route == Route::kDeferred);
        if (route == Route::kNegotiated) Reduced(arrival);
      }
      for (const auto& count : reduced_) {
        while (count.load(std::memory_order_relaxed) < iteration) std::this_thread::yield();
      }
    }
  }

  void Reduced(const ArrivalPtr& arrival) {
    reduced_[static_cast<const Numbered&>(*arrival).number].fetch_add(1, std::memory_order_relaxed);
  }

  void PlannedPath() {
    std::array<int, kIds> takes{};
    while (!over_.load(std::memory_order_relaxed)) {
      for (int bucket_id = 0; bucket_id < kIds; ++bucket_id) {
        if (announced_[bucket_id].load(std::memory_order_acquire) == takes[bucket_id]) continue;
        ++takes[bucket_id];
        const Work work = plans_.Take(bucket_id);
        plans_.MarkReduced(work);
        planned_.fetch_add(1, std::memory_order_relaxed);
        for (const ArrivalPtr& arrival : work.arrivals) Reduced(arrival);
      }
      std::this_thread::yield();
    }
  }

  void Background() {
    while (!over_.load(std::memory_order_relaxed)) {
      const std::string row = plans_.VoteRow(true, true);
      std::this_thread::yield();
      const auto outcome = plans_.Apply(ByRank({row}));
      for (const ArrivalPtr& arrival : outcome.to_negotiate) Reduced(arrival);
      rejected_ += static_cast<int>(outcome.rejections.size());
      std::this_thread::yield();
    }
  }

  void Python() {
    const auto late = PlanTable::Clock::time_point::max();
    while (planned_.load(std::memory_order_relaxed) < kIterations) {
      // One after the other many times: each lock would hide that the other is missing.
      for (int i = 0; i < 20; ++i) plans_.Reports();
      for (int i = 0; i < 20; ++i) plans_.LateBuckets(late);
      std::this_thread::yield();
    }
    plans_.Add(MakePlan("q", 2, {{0, 1}}, 50));
    plans_.Reject("q", "no good");
    plans_.Reject("p", "no more");
  }

  std::array<std::atomic<int>, kSlots> reduced_{};
  std::array<std::atomic<int>, kIds> announced_{};
  std::atomic<int> planned_{0}, meetings_{0};
  std::atomic<bool> over_{false};
  int rejected_ = 0;
  PlanTable plans_{kIds,
                   [this](const auto& work) {
                     announced_[work.bucket->id].fetch_add(1, std::memory_order_release);
                   },
                   [this] { meetings_.fetch_add(1, std::memory_order_relaxed); }};
};

TEST_F(PlanTableThreads, NothingIsLostOrDoubled) {
  plans_.Add(MakePlan("p", kSlots, {{0, 2}, {1}, {3}}));
  std::vector<std::thread> framework, background;
  background.emplace_back([this] { Background(); });
  background.emplace_back([this] { PlannedPath(); });
  for (int first_slot : {0, 2}) {
    framework.emplace_back([this, first_slot] { Framework(first_slot); });
  }
  framework.emplace_back([this] { Python(); });
  for (std::thread& thread : framework) thread.join();
  over_ = true;
  for (std::thread& thread : background) thread.join();
  plans_.Apply(ByRank({plans_.VoteRow(true, false)}));
  EXPECT_TRUE(plans_.Close().empty());
  for (const auto& count : reduced_) EXPECT_EQ(count, kIterations);
  EXPECT_GE(planned_, kIterations);
  EXPECT_GE(meetings_, 3);  // ready, and both rejections
  for (const auto& plan : plans_.Reports()) EXPECT_EQ(plan.state, "negotiated");
}

// Nothing is announced any more when Finish() has returned, so the ready queue ends on this rank.
TEST(PlanTableFinish, IsTheEndForArrivalsUnderWay) {
  for (int round = 0; round < 300; ++round) {
    std::atomic<bool> finished{false};
    PlanTable plans{1, [&](const auto&) { EXPECT_FALSE(finished); }, [] {}};
    plans.Add(MakePlan("p", 1, {{0}}));
    const auto arrive = [&] {
      ArrivalPtr arrival = std::make_unique<Arrival>();
      return ArriveAt(plans, 1, arrival);
    };
    while (!plans.WantsVote()) arrive();
    plans.Apply(ByRank({plans.VoteRow(true, false)}));
    std::atomic<bool> started{false};
    std::thread framework([&] {
      for (Route route = arrive(); route != Route::kNegotiated; route = arrive()) {
        plans.MarkReduced(plans.Take(0));
        started = true;
      }
    });
    while (!started) std::this_thread::yield();
    for (volatile int delay = round * 50; delay > 0;) delay = delay - 1;
    plans.Finish();
    finished = true;
    framework.join();
  }
}

}  // namespace plan_table_threads_test
}  // namespace horovod_opt
