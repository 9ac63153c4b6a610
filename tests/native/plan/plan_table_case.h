// The fixture of tests of the plans of one process.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {

// One rank, alone or with others whose rows the test writes.
class PlanTableTest : public testing::Test {
 protected:
  static constexpr int kCapacity = 5;  // buckets

  Route Arrive(std::int64_t key, std::int64_t bytes = 4, const std::string& problem = "") {
    ArrivalPtr arrival = std::make_unique<Arrival>();
    arrival->bytes = bytes;
    arrival->obstacle = problem;
    return plans_.Arrive(key, arrival);
  }

  PlanTable::Outcome HoldVote(const std::vector<std::string>& other_rows = {}) {
    // However long the test takes, nothing is idle before it says so.
    const auto now = later_.count() == 0 ? begin_ : PlanTable::Clock::now() + later_;
    std::vector<std::string> rows{plans_.VoteRow(true, times_, now)};
    rows.insert(rows.end(), other_rows.begin(), other_rows.end());
    return plans_.Apply(ByRank(rows));
  }

  // What another rank says of plan p.
  static Vote Says(PlanState state, std::uint64_t begun, const std::string& reason = "") {
    Vote vote;
    vote.hash = "p";
    vote.state = state;
    vote.last_iteration = begun;
    vote.reason = reason;
    return vote;
  }

  // One iteration in the planned path.
  void Planned(const Plan& plan) {
    for (const Slot& slot : plan.slots) {
      announced_.clear();
      EXPECT_EQ(Arrive(slot.key), Route::kPlanned);
      for (int bucket_id : announced_) plans_.MarkReduced(plans_.Take(bucket_id));
    }
  }

  // Adds the plan and makes it active.
  void Activate(const Plan& plan) {
    plans_.Add(plan);
    for (int iteration = 0; iteration < kWarmUpIterations; ++iteration) {
      for (const Slot& slot : plan.slots) EXPECT_EQ(Arrive(slot.key), Route::kNegotiated);
    }
    HoldVote();
  }

  PlanTable::Report ReportOf(const std::string& hash) const {
    for (auto& report : plans_.Reports()) {
      if (report.hash == hash) return report;
    }
    ADD_FAILURE() << "no plan " << hash;
    return {};
  }

  std::vector<int> announced_;  // bucket IDs
  int meetings_ = 0;
  const PlanTable::Clock::time_point begin_ = PlanTable::Clock::now();
  std::chrono::seconds later_{0};
  bool times_ = false;
  PlanTable plans_{kCapacity, [this](const auto& work) { announced_.push_back(work.bucket->id); },
                   [this] { ++meetings_; }};
};

}  // namespace horovod_opt
