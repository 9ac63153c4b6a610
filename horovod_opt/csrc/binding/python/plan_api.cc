// What Python calls about plans, through ctypes.
#include <exception>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>

#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/hooks/enqueue.h"
#include "horovod_opt/csrc/binding/modes/topo/topo.h"
#include "horovod_opt/csrc/core/plan/plan.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"

namespace horovod_opt {
namespace {

void AddPlan(const std::string& text) {
  Plan plan = ParsePlan(text);
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (!state.plans.insert(text).second) return;
  Topo* const topo = state.topo;
  if (topo == nullptr) return;
  // A process set that is not there yet gets its plans when it comes.
  if (const auto plans = topo->PlansOf(plan.process_set)) plans->Add(std::move(plan));
}

void RemovePlan(const std::string& text) {
  State& state = GlobalState();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.plans.erase(text) == 0) return;
  Topo* const topo = state.topo;
  if (topo == nullptr) return;
  const Plan plan = ParsePlan(text);
  if (const auto plans = topo->PlansOf(plan.process_set)) plans->Remove(plan);
}

std::string CommaSeparated(const std::vector<int>& numbers) {
  std::string text;
  for (int number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

std::string DescribePlans(int process_set, const PlanTable& plans) {
  std::ostringstream text;
  for (const auto& plan : plans.Reports()) {
    text << "plan\t" << plan.hash << '\t' << plan.state << '\t' << plan.iterations << '\t'
         << process_set << '\t' << plan.name << '\t' << plan.reason << '\n';
    for (const auto& bucket : plan.buckets) text << "bucket\t" << CommaSeparated(bucket) << '\n';
    for (std::size_t slot = 0; slot < plan.slots.size(); ++slot) {
      text << "slot\t" << plan.times_last[slot] << '\t' << plan.slots[slot] << '\n';
    }
  }
  return text.str();
}

}  // namespace
}  // namespace horovod_opt

extern "C" {

// A plan as ParsePlan() describes it, for this start and those to come. Returns what is wrong with
// it, or "".
const char* horovod_opt_add_plan(const char* text) {
  thread_local std::string problem;
  problem.clear();
  try {
    horovod_opt::AddPlan(text);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return problem.c_str();
}

// The graph of the plan is gone; `text` as it was added.
void horovod_opt_remove_plan(const char* text) { horovod_opt::RemovePlan(text); }

// From now on the plan stays negotiated, on every rank.
void horovod_opt_reject_plan(const char* hash, const char* reason) {
  auto* topo = horovod_opt::GlobalState().topo.load();
  if (topo == nullptr) return;
  for (const auto& [process_set, plans] : topo->AllPlans()) plans->Reject(hash, reason);
}

// The tensor with this key is not handed over as one: other calls come in its place.
void horovod_opt_leave_out(std::int64_t key, const char* reason) {
  horovod_opt::LeaveOut(key, reason);
}

// Tab-separated lines: "plan hash state iterations process_set name reason", then for each bucket
// "bucket slots" and for each slot "slot times_last name". Empty unless mode topo is on.
const char* horovod_opt_plans() {
  thread_local std::string text;
  auto* topo = horovod_opt::GlobalState().topo.load();
  text.clear();
  if (topo == nullptr) return text.c_str();
  for (const auto& [process_set, plans] : topo->AllPlans()) {
    text += horovod_opt::DescribePlans(process_set, *plans);
  }
  return text.c_str();
}

}  // extern "C"
