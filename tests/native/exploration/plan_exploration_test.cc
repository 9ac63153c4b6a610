// The invariants of plan_run.h and consensus.h in every order of events. The rules one by one, and
// what goes wrong without: tests/by_hand/mutations/run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/native/exploration/job.h"

namespace horovod_opt {
namespace exploration {
namespace plan_exploration_test {

using Disturbance = Scenario::Disturbance;

// By hand: with more ranks, and until so many states are known.
int Number(const char* variable, int usual) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? usual : std::atoi(text);
}

const int kRanks = Number("HOROVOD_OPT_EXPLORED_RANKS", 2);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
const int kUsualStates = 500;  // all use memory alike
#else
const int kUsualStates = 0;  // all
#endif
const int kStates = Number("HOROVOD_OPT_EXPLORED_STATES", kUsualStates);

struct Case {
  const char* name;
  Scenario scenario;
  std::size_t states;  // of two ranks
};

void PrintTo(const Case& what, std::ostream* stream) { *stream << what.name; }

// A plan of two buckets, which is active, and one iteration.
Scenario OnePlan() {
  Scenario scenario;
  scenario.plans = {{"p", 2, {{0}, {1}}}};
  scenario.known = 2;
  scenario.ranks = kRanks;
  return scenario;
}

Scenario Disturbed(Scenario scenario, std::vector<Disturbance> disturbances) {
  scenario.disturbances = std::move(disturbances);
  return scenario;
}

// Three buckets of two plans.
Scenario TwoPlans() {
  Scenario scenario = OnePlan();
  scenario.plans = {{"p", 3, {{0}, {1, 2}}}, {"q", 1, {{0}}}};
  return scenario;
}

Scenario Activation() {
  Scenario scenario = OnePlan();
  scenario.known = 0;
  scenario.iterations = kRanks == 2 ? 4 : 3;
  scenario.ends_active = true;
  return scenario;
}

Scenario Devices() {
  Scenario scenario = Activation();
  scenario.iterations = 3;
  scenario.on_gpu = {1};
  scenario.ends_active = false;
  return scenario;
}

// A rank leaves a tensor out, before the plan is active or after.
Scenario LeftOutEarly() {
  Scenario scenario = Activation();
  scenario.iterations = 3;
  scenario.ends_active = false;
  return Disturbed(scenario, {{Disturbance::kLeaveOut, 1, 0, 1}});
}

// The second plan gets the bucket IDs of the first, which has ended.
Scenario Heirs() {
  Scenario scenario = OnePlan();
  scenario.plans = {{"p", 1, {{0}}}, {"q", 1, {{0}}}};
  scenario.late = {0, 2};
  scenario.capacity = 1;
  return Disturbed(scenario, {{Disturbance::kReject, 1}});
}

Scenario Steps(std::vector<Scenario::Leave> leaves) {
  Scenario scenario = OnePlan();
  scenario.plans = {{"p", 2, {{0, 1}}}};
  scenario.leaves = std::move(leaves);
  scenario.iterations = 4;
  return scenario;
}

// All ranks leave an iteration in which the plan is not active, or just becomes it.
Scenario StepLeftEarly(int iteration) {
  Scenario scenario = Steps({});
  scenario.known = 1;
  scenario.iterations = iteration + 1;
  scenario.in_order = true;
  for (int rank = 0; rank < kRanks; ++rank) scenario.leaves.push_back({rank, iteration, 1});
  return scenario;
}

Scenario Joins() {
  Scenario scenario = OnePlan();
  scenario.joins = {3, 4};
  scenario.joins.resize(kRanks, 3);
  return scenario;
}

// A rank joins before the plan is active.
Scenario JoinEarly() {
  Scenario scenario = Joins();
  scenario.known = 0;
  scenario.joins[0] = 2;
  return scenario;
}

Scenario Rebuild() {
  Scenario scenario = OnePlan();
  scenario.known = 7;
  scenario.iterations = 9;
  scenario.rebuilt = true;
  return scenario;
}

// Its last iteration may be under way when the graph goes, on all ranks.
Scenario Forgotten() {
  std::vector<Disturbance> removals;
  for (int rank = 0; rank < kRanks; ++rank) removals.push_back({Disturbance::kRemove, rank});
  return Disturbed(OnePlan(), removals);
}

// A rank dies at any moment.
Scenario Death() {
  Scenario scenario = OnePlan();
  scenario.ranks = 3;
  return Disturbed(scenario, {{Disturbance::kDeath, 1}});
}

std::vector<Case> Cases() {
  return {
      {"Activation", Activation(), 2900},
      {"TwoPlans", TwoPlans(), 1400},
      {"Devices", Devices(), 1150},
      {"End", Disturbed(OnePlan(), {{Disturbance::kReject, 1}}), 3500},
      {"EndByATensor", Disturbed(OnePlan(), {{Disturbance::kDiffers, 1, 0, 1}}), 800},
      {"LeftOut", Disturbed(OnePlan(), {{Disturbance::kLeaveOut, 1, 0, 1}}), 700},
      {"LeftOutEarly", LeftOutEarly(), 4100},
      {"Heirs", Heirs(), 1600},
      {"StepLeft", Steps({{1, 3, 1}}), 2700},
      {"StepLeftByTwo", Steps({{0, 3, 1}, {1, 3, 1}}), 5100},
      {"StepLeftInWarmUp", StepLeftEarly(2), 80},
      {"StepLeftBeforeActive", StepLeftEarly(3), 11000},
      {"Join", Joins(), 550},
      {"JoinEarly", JoinEarly(), 1900},
      {"Rebuild", Rebuild(), 10000},
      {"Forgotten", Forgotten(), 1500},
      {"Shutdown", Disturbed(OnePlan(), {{Disturbance::kShutdown, 1}}), 1300},
      {"Death", Death(), 2000},
  };
}

class PlanExploration : public testing::TestWithParam<Case> {};

TEST_P(PlanExploration, NoRuleIsBroken) {
  const Case& what = GetParam();
  Limits limits;
  if (kStates > 0) limits.states = static_cast<std::size_t>(kStates);
  const MakeWorld jobs = JobsOf(what.scenario);
  const Findings findings = Explore(jobs, limits);
  std::cout << what.name << ": " << findings.Text() << std::endl;
  EXPECT_EQ(findings.violation, "");
  EXPECT_EQ(CompareTwins(jobs, 1, 20), "");
  if (kStates == 0 && kRanks == 2) {
    EXPECT_TRUE(findings.is_complete);
    EXPECT_GE(findings.states, what.states);
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, PlanExploration, testing::ValuesIn(Cases()),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace plan_exploration_test
}  // namespace exploration
}  // namespace horovod_opt
