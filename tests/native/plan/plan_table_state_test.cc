// What PlanTable tells of plans that have something under way.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "tests/native/plan/plan_table_case.h"

namespace horovod_opt {
namespace plan_table_state_test {

class PlanTableState : public PlanTableTest {
 protected:
  // Ages are as of a time before all arrivals, and so 0.
  StatePage Dump(const PlanTable::BucketNote& more = {}) {
    StatePage page(begin_);
    plans_.DumpState(page, 0, more);
    return page;
  }

  std::string Text() { return Dump().Text(); }

  static bool Has(const StatePage& page, const std::string& line) {
    return page.Message().find(line + "\n") != std::string::npos;
  }

  ArrivalPtr OfStep(std::int64_t step) {
    auto arrival = std::make_unique<Arrival>();
    arrival->step = step;
    arrival->in_turn = true;
    return arrival;
  }

  Route Send(std::int64_t key, std::int64_t step) {
    ArrivalPtr arrival = OfStep(step);
    return ArriveAt(plans_, key, arrival);
  }
};

TEST_F(PlanTableState, SaysNothingOfPlansWithNothingUnderWay) {
  EXPECT_EQ(Text(), "");
  Activate(MakePlan("p", 2, {{0, 1}}));
  EXPECT_EQ(Text(), "plans with nothing under way: 1\n");
  EXPECT_TRUE(Has(Dump(), "fact\tplan\t0\tp\tp\t2"));
}

TEST_F(PlanTableState, ABucketThatIsBegun) {
  Activate(MakePlan("p", 3, {{0, 1}, {2}}));
  Arrive(1);
  const StatePage page = Dump();
  EXPECT_EQ(page.Text(),
            "plan p (p): active; iteration 3 has begun, 0 planned ones are reduced\n"
            "  bucket 0, iteration 3: begun 0.0 s ago; here: 'a'; missing: 'b'\n"
            "  not yet called as often as the others: 'b', 'c'\n");
  EXPECT_TRUE(Has(page, "fact\twaits\t0\tbegun\tp\t3\t0\ta"));
  EXPECT_TRUE(Has(page, "fact\tmisses\t0\tp\t3\tb"));
  EXPECT_TRUE(Has(page, "fact\tplan\t0\tp\tp\t3"));
  EXPECT_TRUE(Has(page, "fact\tbehind\t0\tp\tb\t2"));
  EXPECT_TRUE(Has(page, "fact\tbehind\t0\tp\tc\t2"));
}

TEST_F(PlanTableState, ABucketThatIsCompleteAndNotReduced) {
  Activate(MakePlan("p", 2, {{0, 1}}));
  Arrive(2);
  Arrive(1);
  const StatePage page = Dump([](int bucket_id) { return "; on " + std::to_string(bucket_id); });
  EXPECT_EQ(page.Text(),
            "plan p (p): active; iteration 3 has begun, 0 planned ones are reduced\n"
            "  bucket 0, iteration 3: complete for 0.0 s, waits for its sum: 'a', 'b'; on 0\n"
            "  announced and not reduced: 1 bucket\n");
  EXPECT_TRUE(Has(page, "fact\twaits\t0\tcomplete\tp\t3\t0\ta"));
  EXPECT_FALSE(Has(page, "fact\tmisses\t0\tp\t3\ta"));
}

TEST_F(PlanTableState, ABucketThatIsTakenAndNotReduced) {
  Activate(MakePlan("p", 1, {{0}}));
  Arrive(1);
  const Work work = plans_.Take(0);
  EXPECT_EQ(Text(),
            "plan p (p): active; iteration 3 has begun, 0 planned ones are reduced\n"
            "  announced and not reduced: 1 bucket\n");
  StatePage page;
  EXPECT_EQ(plans_.DumpBucket(page, 0), "bucket 0 (plan p: 'a')");
  EXPECT_EQ(plans_.DumpBucket(page, 1), "bucket 1");
  EXPECT_EQ(plans_.DumpBucket(page, 12345), "bucket 12345");
  plans_.MarkReduced(work);
  EXPECT_EQ(Text(), "plans with nothing under way: 1\n");
}

TEST_F(PlanTableState, WhatIsDeferredUntilTheVote) {
  Activate(MakePlan("p", 2, {{0}, {1}}));
  plans_.Reject("p", "no more");
  EXPECT_EQ(Arrive(1), Route::kDeferred);
  const StatePage page = Dump();
  EXPECT_EQ(page.Text(),
            "plan p (p): active, and this rank wants it to end (no more); iteration 2 has begun, "
            "0 planned ones are reduced\n"
            "  not yet called as often as the others: 'b'\n"
            "  what arrives is deferred until the ranks have voted\n"
            "  deferred until the ranks have voted: 'a'\n"
            "a vote on plans is wanted\n");
  EXPECT_TRUE(Has(page, "fact\twaits\t0\tdeferred\tp\t3\t\ta"));
}

TEST_F(PlanTableState, WhatIsHeldForALaterStep) {
  plans_.Add(MakePlan("p", 2, {{0, 1}}));
  for (std::int64_t step = 1; step <= kWarmUpIterations; ++step) {
    for (std::int64_t key : {1, 2}) EXPECT_EQ(Send(key, step), Route::kNegotiated);
  }
  HoldVote();
  EXPECT_EQ(Send(1, 10), Route::kPlanned);
  EXPECT_EQ(Send(1, 11), Route::kDeferred);
  const StatePage page = Dump();
  EXPECT_TRUE(Has(page, "line\t1\theld until the step before is over: 'a'")) << page.Text();
  EXPECT_TRUE(Has(page, "fact\twaits\t0\theld\tp\t0\t\ta"));
  EXPECT_TRUE(Has(page, "line\t0\ta vote on plans is wanted"));
}

TEST_F(PlanTableState, OfAProcessSet) {
  Activate(MakePlan("p", 2, {{0, 1}}));
  Arrive(1);
  StatePage page(begin_);
  plans_.DumpState(page, 7);
  EXPECT_TRUE(Has(page, "fact\twaits\t7\tbegun\tp\t3\t0\ta"));
  EXPECT_NE(page.Text().find("plan p (p), process set 7: active"), std::string::npos);
}

TEST_F(PlanTableState, JoinedAndShutDown) {
  plans_.Join();
  plans_.Finish();
  EXPECT_EQ(Text(),
            "a vote on plans is wanted\nthis rank has joined\n"
            "no tensor is planned any more: shutdown\n");
}

// Calls for a vote and does not come back as long as it stands.
class HangingVote {
 public:
  void Call() {
    std::unique_lock<std::mutex> lock(mutex_);
    called_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return ended_ || !hangs; });
  }
  void AwaitCall() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return called_; });
  }
  void End() {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  std::atomic<bool> hangs{false};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool called_ = false, ended_ = false;
};

// What is told while a thread hangs in `act`, under locks.
template <class Act>
std::string TextWhile(const Act& act) {
  HangingVote vote;
  PlanTable plans(1, [](const Work&) {}, [&] { vote.Call(); });
  plans.Add(MakePlan("p", 1, {{0}}));
  vote.hangs = true;
  std::thread thread([&] { act(plans); });
  vote.AwaitCall();
  StatePage page;
  plans.DumpState(page, 0);
  vote.End();
  thread.join();
  return page.Text();
}

TEST(PlanTableLocks, APlanThatIsLockedIsTold) {
  EXPECT_EQ(TextWhile([](PlanTable& plans) { plans.Reject("p", "no more"); }),
            "the lock of plan p (p) is held for longer than 200 ms by another thread: nothing is "
            "told of it\na vote on plans is wanted\n");
}

TEST(PlanTableLocks, ATableThatIsLockedIsTold) {
  const auto add_with_the_same_key = [](PlanTable& plans) { plans.Add(MakePlan("q", 1, {{0}})); };
  EXPECT_EQ(TextWhile(add_with_the_same_key),
            "the lock of the table of plans is held for longer than 200 ms by another thread: "
            "nothing is told of it\n");
}

}  // namespace plan_table_state_test
}  // namespace horovod_opt
