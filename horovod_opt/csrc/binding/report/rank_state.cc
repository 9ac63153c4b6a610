#include "horovod_opt/csrc/binding/report/rank_state.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/state.h"
#include "horovod_opt/csrc/binding/modes/topo/topo.h"
#include "horovod_opt/csrc/core/report/state_page.h"

namespace horovod_opt {
namespace {

using horovod::common::HorovodGlobalState;
using horovod::common::Request;
using horovod::common::TensorTableEntry;

// So many tensors of a queue are lines.
constexpr std::size_t kLines = 8;
// In this time several cycles pass, unless the thread waits.
constexpr std::chrono::milliseconds kLook(100);

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The framework's: ".../horovod/torch/mpi_lib_v2.so".
std::string Library() {
  Dl_info info;
  const auto own = reinterpret_cast<const void*>(&JobFromEnvironment);
  return dladdr(own, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

std::string KindOf(Request::RequestType type) {
  std::string kind = Request::RequestType_Name(type);
  std::transform(kind.begin(), kind.end(), kind.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return kind;
}

struct QueuedTensor {
  StatePage::Clock::time_point since;
  std::string name, kind;
};

void TellQueue(StatePage& page, int id, std::vector<QueuedTensor> tensors) {
  const std::string set = std::to_string(id);
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.since < b.since; });
  for (const QueuedTensor& tensor : tensors) {
    page.Fact({"waits", set, "negotiated", tensor.kind, "0", page.Milliseconds(tensor.since),
               tensor.name});
  }
  if (tensors.empty()) return;
  page.Line(0, "negotiated path" + (id == 0 ? "" : ", process set " + set) +
                   ": waiting in Horovod's queue: " + std::to_string(tensors.size()));
  for (std::size_t i = 0; i < std::min(tensors.size(), kLines); ++i) {
    page.Line(1, tensors[i].kind + " '" + tensors[i].name + "' for " + page.Age(tensors[i].since));
  }
  if (tensors.size() > kLines) {
    page.Line(1, "and " + std::to_string(tensors.size() - kLines) + " more, that came later");
  }
}

// A queue's mutex is upstream's: TryForEachEntry() stands for trying to lock it.
class QueueLook {
 public:
  explicit QueueLook(const horovod::common::TensorQueue& queue) : queue_(queue) {}

  bool try_lock() {
    return queue_.TryForEachEntry([this](const TensorTableEntry& entry) {
      tensors.push_back({entry.opt_since, entry.tensor_name, KindOf(entry.opt_request_type)});
    });
  }

  std::vector<QueuedTensor> tensors;

 private:
  const horovod::common::TensorQueue& queue_;
};

void TellQueues(StatePage& page, HorovodGlobalState& horovod) {
  auto& table = horovod.process_set_table;
  std::unique_lock<std::recursive_mutex> lock(table.mutex, std::defer_lock);
  page.Under(lock, "the table of process sets", [&] {
    for (const int id : table.Ids()) {
      const auto& process_set = table.Get(id);
      if (!process_set.initialization_done) {
        page.Line(0, "process set " + std::to_string(id) + " is being made");
        continue;
      }
      if (id != 0) {
        std::string ranks;
        for (int rank : process_set.registered_global_ranks) {
          ranks += (ranks.empty() ? "" : ",") + std::to_string(rank);
        }
        page.Fact({"set", std::to_string(id), ranks});
      }
      QueueLook queue(process_set.tensor_queue);
      page.Under(queue, "Horovod's queue of process set " + std::to_string(id),
                 [&] { TellQueue(page, id, std::move(queue.tensors)); });
    }
  });
}

void TellCycles(StatePage& page, std::int64_t before, std::int64_t after) {
  const std::string now = std::to_string(after);
  page.Fact({"cycles", std::to_string(before), now});
  page.Line(0, after > before ? "background thread: goes on, " + std::to_string(after - before) +
                                    " cycles within " + std::to_string(kLook.count()) + " ms"
                              : "background thread: in cycle " + now + " for at least " +
                                    std::to_string(kLook.count()) +
                                    " ms: it waits for the other ranks, in MPI or Gloo");
}

}  // namespace

std::string JobFromEnvironment() {
  const std::string port = Variable("HOROVOD_GLOO_RENDEZVOUS_PORT");
  if (!port.empty()) return "gloo " + Variable("HOROVOD_GLOO_RENDEZVOUS_ADDR") + ":" + port;
  const std::string space = Variable("PMIX_NAMESPACE");
  if (!space.empty()) return "pmix " + space;
  const std::string job = Variable("SLURM_JOB_ID");
  return job.empty() ? "" : "slurm " + job + "." + Variable("SLURM_STEP_ID");
}

std::string DumpRankState(const RankIdentity& identity, HorovodGlobalState* horovod,
                          const std::string& phase, PerformedResponse& performed) {
  const auto start = StatePage::Clock::now();
  StatePage page(start);
  State& state = GlobalState();
  const std::int64_t cycles = state.counters.Read().cycles;
  int mode = 0, controller = 0;
  std::unique_lock<std::mutex> lock(state.mutex, std::defer_lock);
  page.Under(lock, "the state of the library", [&] {
    mode = static_cast<int>(state.settings.mode);
    controller = state.controller;
  });
  if (lock.owns_lock()) lock.unlock();
  page.Fact({"rank", std::to_string(identity.rank), std::to_string(identity.size),
             std::to_string(identity.local_rank), std::to_string(identity.local_size)});
  page.Fact({"job", identity.job});
  page.Fact({"mode", std::to_string(mode), std::to_string(controller)});
  page.Fact({"library", Library()});
  if (horovod == nullptr) {
    page.Line(0, "background thread: " + phase);
    page.Fact({"phase", phase});
    return page.Message();
  }
  performed.DumpState(page);
  TellQueues(page, *horovod);
  if (Topo* const topo = state.topo) {
    topo->DumpState(page);
    return page.Message();
  }
  std::this_thread::sleep_until(start + kLook);
  TellCycles(page, cycles, state.counters.Read().cycles);
  return page.Message();
}

}  // namespace horovod_opt
