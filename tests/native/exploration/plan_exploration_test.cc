// The invariants of plan_run.h and consensus.h in every order of events, or in all that interrupt
// threads so often. tests/by_hand/mutations/run removes the rules one by one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "tests/native/exploration/job.h"

namespace horovod_opt {
namespace exploration {
namespace plan_exploration_test {

using Disturbance = Scenario::Disturbance;

struct Case {
  const char* name;
  Scenario scenario;
  int preemptions;
  std::size_t states;  // that are found at least
};

void PrintTo(const Case& what, std::ostream* stream) { *stream << what.name; }

constexpr int kAll = Limits::kAnyNumber;

// Three buckets of two plans, which are active, and one iteration.
Scenario TwoPlans() {
  Scenario scenario;
  scenario.plans = {{"p", 3, {{0}, {1, 2}}}, {"q", 1, {{0}}}};
  scenario.known = 2;
  return scenario;
}

// One plan of two buckets, which is active.
Scenario OnePlan(int ranks = 3) {
  Scenario scenario;
  scenario.plans = {{"p", 2, {{0}, {1}}}};
  scenario.known = 2;
  scenario.ranks = ranks;
  return scenario;
}

Scenario Disturbed(Scenario scenario, std::vector<Disturbance> disturbances) {
  scenario.disturbances = std::move(disturbances);
  return scenario;
}

Scenario Activation(int ranks) {
  Scenario scenario = OnePlan(ranks);
  scenario.known = 0;
  scenario.iterations = 4;
  return scenario;
}

Scenario Devices() {
  Scenario scenario = Activation(2);
  scenario.iterations = 3;
  scenario.on_gpu = {1};
  return scenario;
}

// The second plan gets the bucket IDs of the first, which has ended.
Scenario Heirs() {
  Scenario scenario = OnePlan(2);
  scenario.plans.push_back({"q", 1, {{0}}});
  scenario.late = {0, 2};
  scenario.capacity = 2;
  scenario.iterations = 3;
  return Disturbed(scenario, {{Disturbance::kReject, 1}});
}

Scenario Steps(std::vector<Scenario::Leave> leaves) {
  Scenario scenario = OnePlan();
  scenario.plans = {{"p", 2, {{0, 1}}}};
  scenario.leaves = std::move(leaves);
  scenario.iterations = 4;
  return scenario;
}

Scenario Joins(std::vector<int> joins) {
  Scenario scenario = OnePlan(static_cast<int>(joins.size()));
  scenario.joins = std::move(joins);
  return scenario;
}

Scenario Rebuild() {
  Scenario scenario = OnePlan(2);
  scenario.known = 6;
  scenario.iterations = 8;
  scenario.rebuilt = true;
  return scenario;
}

std::vector<Case> Cases() {
  std::vector<Case> cases{
      {"Activation", Activation(2), 2, 1},
      {"ActivationOfThree", Activation(3), 0, 1},
      {"TwoPlans", TwoPlans(), 1, 1},
      {"Devices", Devices(), 1, 1},
      {"End", Disturbed(OnePlan(), {{Disturbance::kReject, 1}}), 1, 1},
      {"EndByATensor", Disturbed(OnePlan(2), {{Disturbance::kDiffers, 1, 0, 1}}), 2, 1},
      {"LeftOut", Disturbed(OnePlan(2), {{Disturbance::kLeaveOut, 1, 0, 1}}), 2, 1},
      {"Heirs", Heirs(), 1, 1},
      {"StepLeftByOne", Steps({{1, 3, 1}}), 1, 1},
      {"StepLeftByTwo", Steps({{0, 3, 1}, {1, 3, 1}}), 1, 1},
      {"Join", Joins({3, 4}), 2, 1},
      {"JoinOfThree", Joins({3, 4, 2}), 1, 1},
      {"Rebuild", Rebuild(), 2, 1},
      {"Forgotten",
       Disturbed(OnePlan(2), {{Disturbance::kRemove, 0}, {Disturbance::kRemove, 1}}), 2, 1},
      {"Shutdown", Disturbed(OnePlan(), {{Disturbance::kShutdown, 2}}), 1, 1},
      {"Death", Disturbed(OnePlan(), {{Disturbance::kDeath, 1}}), 1, 1},
  };
  return cases;
}

class PlanExploration : public testing::TestWithParam<Case> {};

TEST_P(PlanExploration, NoRuleIsBroken) {
  const Case& what = GetParam();
  Limits limits;
  limits.preemptions = what.preemptions;
  if (const char* more = std::getenv("HOROVOD_OPT_PREEMPTIONS")) limits.preemptions = std::atoi(more);
  const Findings findings = Explore(JobsOf(what.scenario), limits);
  std::cout << what.name << ": " << findings.Text() << std::endl;
  EXPECT_EQ(findings.violation, "");
  EXPECT_GE(findings.states, what.states);
  EXPECT_EQ(CompareTwins(JobsOf(what.scenario), 1, 20), "");
}

INSTANTIATE_TEST_SUITE_P(All, PlanExploration, testing::ValuesIn(Cases()),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace plan_exploration_test
}  // namespace exploration
}  // namespace horovod_opt
