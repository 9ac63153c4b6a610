// The fixture of tests of one plan on one rank.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_run.h"
#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {

struct Numbered : Arrival {
  explicit Numbered(int n) : number(n) {}
  const int number;
};

inline int NumberOf(const ArrivalPtr& arrival) {
  return arrival == nullptr ? 0 : static_cast<const Numbered&>(*arrival).number;
}

inline std::vector<int> NumbersOf(const std::vector<ArrivalPtr>& arrivals) {
  std::vector<int> numbers;
  for (const ArrivalPtr& arrival : arrivals) numbers.push_back(NumberOf(arrival));
  return numbers;
}

// Slots a, b and c in buckets {a, b} and {c}, which have the bucket IDs 10 and 11 once committed.
// Iteration kLast was the last of the warm-up.
class PlanRunTest : public testing::Test {
 protected:
  using Clock = PlanRun::Clock;

  static constexpr std::uint64_t kLast = kWarmUpIterations;
  static constexpr int kBase = 10;  // first bucket ID

  PlanRunTest() {
    for (std::uint64_t iteration = 1; iteration <= kLast; ++iteration) Negotiated();
    EXPECT_EQ(run_.state(), PlanState::kReady);
    sent_ = 0;
  }

  PlanRun::ArrivalResult Arrive(int slot, const std::string& difference = "") {
    ArrivalPtr arrival = std::make_unique<Numbered>(++sent_);
    const auto arrived = run_.Arrive(slot, difference, arrival, now_);
    const bool is_taken = arrived.route == Route::kPlanned || arrived.route == Route::kDeferred;
    EXPECT_EQ(arrival == nullptr, is_taken);
    return arrived;
  }

  // A whole iteration in the negotiated path.
  void Negotiated() {
    for (int slot = 0; slot < 3; ++slot) EXPECT_EQ(Arrive(slot).route, Route::kNegotiated);
  }

  // A whole iteration in the planned path; the slots arrive 1 ms after each other, from c to a.
  void Planned() {
    for (int slot = 2; slot >= 0; --slot) {
      now_ += std::chrono::milliseconds(1);
      const auto arrived = Arrive(slot);
      EXPECT_EQ(arrived.route, Route::kPlanned);
      if (arrived.bucket_id == kNoBucket) continue;
      std::vector<int> bucket_ids;
      progress_ = run_.MarkReduced(run_.Take(arrived.bucket_id, bucket_ids));
      EXPECT_TRUE(bucket_ids.empty());
    }
  }

  Work Take(int bucket_id) {
    std::vector<int> bucket_ids;
    Work work = run_.Take(bucket_id, bucket_ids);
    EXPECT_EQ(work.bucket->id, bucket_id);
    EXPECT_TRUE(bucket_ids.empty());
    return work;
  }

  static Decision Decided(Decision::Kind kind, std::uint64_t from_iteration,
                          const std::string& reason) {
    Decision decision;
    decision.hash = "p";
    decision.kind = kind;
    decision.from_iteration = from_iteration;
    decision.reason = reason;
    return decision;
  }

  PlanRun::Effects Apply(Decision::Kind kind, std::uint64_t from_iteration = 0,
                         std::vector<int> bucket_ids = {kBase, kBase + 1}, Buckets rebuilt = {}) {
    if (kind == Decision::kCommit) rebuilt = run_.buckets();
    return run_.Apply(Decided(kind, from_iteration, "they say"), bucket_ids, std::move(rebuilt));
  }

  Vote CastVote(bool times = false) { return run_.CastVote(false, times, now_); }

  // As if this were the only rank, or `of_others` had completed each bucket so often.
  PlanRun::Effects End(std::vector<std::uint64_t> of_others = {}) {
    const auto own = CastVote().completions;
    if (of_others.empty()) of_others = own;
    Decision decision = Decided(Decision::kEnd, run_.last_iteration() + 1, "they say");
    decision.everywhere = decision.anywhere = own;
    for (std::size_t bucket = 0; bucket < own.size(); ++bucket) {
      decision.everywhere[bucket] = std::min(own[bucket], of_others[bucket]);
      decision.anywhere[bucket] = std::max(own[bucket], of_others[bucket]);
    }
    decision.in_group = decision.everywhere;
    return run_.Apply(decision, {}, {});
  }

  PlanRun::Effects Decided(Decision::Kind kind, std::uint64_t from_iteration = 0) {
    CastVote();
    return Apply(kind, from_iteration);
  }

  void Commit(std::uint64_t from_iteration) {
    Decided(Decision::kCommit, from_iteration);
    EXPECT_EQ(run_.state(), PlanState::kActive);
  }

  PlanRun run_{MakePlan("p", 3, {{0, 1}, {2}})};
  Clock::time_point now_{std::chrono::seconds(1)};
  int sent_ = 0;
  PlanRun::Progress progress_;
};

}  // namespace horovod_opt
