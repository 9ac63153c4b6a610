#include "horovod_opt/csrc/binding/report/process_state.h"

#include <exception>
#include <memory>
#include <mutex>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod/common/logging.h"
#include "horovod_opt/csrc/binding/report/rank_state.h"
#include "horovod_opt/csrc/core/report/state_socket.h"

namespace horovod_opt {
namespace {

using horovod::common::HorovodGlobalState;
using horovod::common::LogLevel;
using horovod::common::LogMessage;

// Never freed: a hung background thread may outlive the destructors of static objects.
struct Dump {
  PerformedResponse performed;
  // Held while a page is made, so that nothing of it goes away meanwhile.
  std::mutex mutex;
  RankIdentity identity;
  HorovodGlobalState* horovod = nullptr;
  const char* phase = "";
  std::unique_ptr<StateSocket> socket;  // of the background thread
};

Dump& dump = *new Dump;

std::string MakePage() {
  StatePage refusal;
  std::string page;
  std::unique_lock<std::mutex> lock(dump.mutex, std::defer_lock);
  refusal.Under(lock, "the state dump", [&] {
    page = DumpRankState(dump.identity, dump.horovod, dump.phase, dump.performed);
  });
  return page.empty() ? refusal.Message() : page;
}

}  // namespace

void OpenStateSocket() {
  dump.identity = RankIdentity();
  dump.identity.job = JobFromEnvironment();
  dump.horovod = nullptr;
  dump.phase = "in hvd.init(): connects to the other ranks, by MPI or Gloo";
  try {
    dump.socket = std::make_unique<StateSocket>(MakePage);
  } catch (const std::exception& problem) {
    LOG(WARNING) << "horovod-opt doctor --pid cannot ask this process: " << problem.what();
  }
}

void CloseStateSocket() { dump.socket.reset(); }

void TellRanksConnect(HorovodGlobalState& horovod) {
  auto& controller = *horovod.global_controller;
  std::lock_guard<std::mutex> lock(dump.mutex);
  dump.identity.rank = controller.GetRank();
  dump.identity.size = controller.GetSize();
  dump.identity.local_rank = controller.GetLocalRank();
  dump.identity.local_size = controller.GetLocalSize();
  dump.horovod = &horovod;
}

void TellRanksPart() {
  std::lock_guard<std::mutex> lock(dump.mutex);
  dump.horovod = nullptr;
  dump.phase = "in hvd.shutdown(), or ends after an error: parts from the other ranks";
}

PerformedResponse& CurrentResponse() { return dump.performed; }

void LeaveStateSocketToParent() {
  if (dump.socket != nullptr) dump.socket->LeaveToParent();
  new (&dump.mutex) std::mutex;
  dump.performed.Forget();
  dump.socket.reset();
}

}  // namespace horovod_opt
