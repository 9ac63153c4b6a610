#include "horovod_opt/csrc/binding/hooks/background_thread.h"

#include <pthread.h>

#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/modes/gs.h"
#include "horovod_opt/csrc/binding/modes/scp.h"
#include "horovod_opt/csrc/binding/modes/topo/topo.h"
#include "horovod_opt/csrc/binding/report/process_state.h"
#include "horovod_opt/csrc/core/agreement/settings_agreement.h"
#include "horovod_opt/csrc/core/cores/affinity.h"
#include "horovod_opt/csrc/core/cores/partition.h"
#include "horovod_opt/csrc/core/plan/plan.h"
#include "horovod_opt/csrc/core/waiting/sleep.h"

namespace horovod_opt {
namespace {

using horovod::common::Controller;
using horovod::common::HorovodGlobalState;
using horovod::common::LibType;
using std::chrono::steady_clock;

// All ranks return or all throw: what one rank cannot do, no rank does.
void AgreeOrThrow(State& state, Controller& controller, const std::string& text,
                  const std::string& error) {
  const std::string row = error.empty() ? text : "error\n" + error;
  if (AllEqual(controller, row, !error.empty())) return;
  const auto rows = GatherRows(controller, row);
  state.init_error = SettingsDisagreement({rows.begin(), rows.end()});
  throw std::runtime_error(state.init_error);
}

// Mode auto: what suits the machine, the same on every rank.
void ChooseMode(State& state, Controller& controller) {
  const bool spare = HasCoresToSpare(state, controller);
  std::lock_guard<std::mutex> lock(state.mutex);
  state.settings.mode = HOROVOD_OPT_MODE_TOPO | (spare ? HOROVOD_OPT_MODE_SCP : 0);
}

// Framework threads may look at a Topo at any time, so none is ever deleted; closed, it is small.
void StartTopo(State& state, HorovodGlobalState& horovod, PerformOperation perform) {
  // In mode scp they share the core of the background thread, which starts them.
  state.planned_cpus.clear();
  if (!state.Has(HOROVOD_OPT_MODE_SCP)) {
    Controller& controller = *horovod.global_controller;
    state.planned_cpus =
        ShareOf(NodeMasks(state, controller), ReadCores(), controller.GetLocalRank());
  }
  Topo* const topo = new Topo(state, horovod, perform);
  std::lock_guard<std::mutex> lock(state.mutex);
  for (const std::string& text : state.plans) {
    Plan plan = ParsePlan(text);
    if (plan.process_set == 0) topo->PlansOf(0)->Add(std::move(plan));
  }
  state.topo = topo;
}

}  // namespace

BackgroundThread::BackgroundThread() {
  BeginThread(GlobalState());
  OpenStateSocket();
}

BackgroundThread::~BackgroundThread() {
  CloseStateSocket();
  State& state = GlobalState();
  if (state.Has(HOROVOD_OPT_MODE_SCP)) UndoPartition(state);
  EndThread(state);
}

void Start(HorovodGlobalState& horovod, PerformOperation perform) {
  // Only now: threads inherit the name, and MPI and Gloo have created theirs.
  pthread_setname_np(pthread_self(), "hvd-background");

  WatchProcess(horovod);
  TellRanksConnect(horovod);
  State& state = GlobalState();
  Controller& controller = *horovod.global_controller;
  const bool gloo = horovod.control_operation == LibType::GLOO;
  {
    std::lock_guard<std::mutex> lock(state.mutex);
    state.rank = controller.GetRank();
    state.size = controller.GetSize();
    state.controller = gloo ? HOROVOD_OPT_CONTROLLER_GLOO : HOROVOD_OPT_CONTROLLER_MPI;
  }
  const std::string by_group =
      "HOROVOD_DISABLE_GROUP_FUSION=" + std::to_string(horovod.disable_group_fusion) + "\n";
  AgreeOrThrow(state, controller, state.settings_text + by_group, state.settings_error);
  if (state.Has(HOROVOD_OPT_MODE_AUTO)) ChooseMode(state, controller);
  if (state.Has(HOROVOD_OPT_MODE_SCP)) {
    AgreeOrThrow(state, controller, "", ApplyPartition(state, controller));
  }
  // A tensor of its own in each operation: what is fused with it would change the order of its sum.
  if (state.settings.deterministic)
    horovod.parameter_manager.SetTensorFusionThresholdBytes(0, true);
  state.keeps_tensors_apart = horovod.disable_group_fusion && state.Has(HOROVOD_OPT_MODE_TOPO);
  if (state.keeps_tensors_apart) horovod.disable_group_fusion = false;
  state.polling = state.Has(HOROVOD_OPT_MODE_NBCS | HOROVOD_OPT_MODE_TOPO);
  if (state.Has(HOROVOD_OPT_MODE_TOPO)) StartTopo(state, horovod, perform);
  if (state.Has(HOROVOD_OPT_MODE_NBCS) && gloo && controller.GetRank() == 0) {
    std::cerr << "horovod-opt: mode nbcs changes nothing under the Gloo controller, whose waits "
                 "already sleep in the kernel"
              << std::endl;
  }
}

bool KeepsTensorsApart() { return GlobalState().keeps_tensors_apart; }

void Pace(HorovodGlobalState& horovod, std::chrono::nanoseconds local) {
  State& state = GlobalState();
  state.counters.AddCycle();
  if (Topo* topo = state.topo) return topo->BeginRound(local);
  auto length = local;
  if (state.Has(HOROVOD_OPT_MODE_GS)) length = GlobalSleepTime(state, horovod, local);
  if (length > std::chrono::nanoseconds::zero()) state.counters.AddSleep(SleepFor(length));
}

void Finish(HorovodGlobalState& horovod) {
  State& state = GlobalState();
  if (Topo* topo = state.topo) topo->Finish();
  if (!state.settings.stats) return;
  const HorovodOptStats own = ReadStats(state);
  const auto rows = GatherRows(*horovod.global_controller,
                               std::string(reinterpret_cast<const char*>(&own), sizeof(own)));
  if (own.rank != 0) return;
  std::lock_guard<std::mutex> lock(state.mutex);
  for (const std::string& row : rows) {
    row.copy(reinterpret_cast<char*>(&state.stats_by_rank.emplace_back()), sizeof(own));
  }
}

void Close() {
  TellRanksPart();
  if (Topo* topo = GlobalState().topo) topo->Close();
}

void LearnCalls(const horovod::common::Response& response,
                horovod::common::ProcessSet& process_set) {
  if (Topo* topo = GlobalState().topo) topo->LearnCalls(response, process_set);
}

bool TakePlannedEntries(const horovod::common::Response& response,
                        std::vector<horovod::common::TensorTableEntry>& entries) {
  Topo* topo = GlobalState().topo;
  if (topo == nullptr || !topo->horovod_ops().IsPerforming()) return false;
  topo->horovod_ops().TakeEntries(response, entries);
  return true;
}

DataScope::DataScope(const horovod::common::Response& response,
                     const std::vector<horovod::common::TensorTableEntry>& entries)
    : start_(steady_clock::now()) {
  CurrentResponse().Begin(response, entries, start_);
  Topo* topo = GlobalState().topo;
  if (topo != nullptr && response.response_type() == horovod::common::Response::JOIN) {
    topo->AllJoined();
  }
  for (const auto& entry : entries) {
    if (entry.tensor != nullptr) bytes_ += entry.tensor->size();
  }
  if (response.response_type() != horovod::common::Response::ALLREDUCE) return;
  if (topo != nullptr && topo->horovod_ops().IsPerforming()) return;  // its plan counts it
  State& state = GlobalState();
  for (const auto& entry : entries) {
    state.counters.SetSteps(state.negotiated_steps.Add(entry.tensor_name));
  }
}

DataScope::~DataScope() {
  CurrentResponse().End();
  Topo* topo = GlobalState().topo;
  if (topo != nullptr && topo->horovod_ops().IsPerforming()) return;  // counted as planned
  GlobalState().counters.AddData(steady_clock::now() - start_, bytes_);
}

}  // namespace horovod_opt
