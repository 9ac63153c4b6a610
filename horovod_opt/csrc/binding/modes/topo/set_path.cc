#include "horovod_opt/csrc/binding/modes/topo/set_path.h"

#include <numeric>
#include <utility>
#include <vector>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod_opt/csrc/binding/base/say.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"

namespace horovod_opt {
namespace {

using horovod::common::HorovodGlobalState;
using horovod::common::ProcessSet;
using horovod::common::Status;

// All ranks of the set, as the set numbers them.
Groups OneGroup(int rank, int ranks) {
  Groups groups;
  groups.ranks.resize(ranks);
  std::iota(groups.ranks.begin(), groups.ranks.end(), 0);
  groups.index = rank;
  groups.cross = {rank};
  return groups;
}

}  // namespace

SetPath::SetPath(State& state, HorovodGlobalState& horovod, int id,
                 std::shared_ptr<ProcessSet> process_set, std::shared_ptr<UnnamedCalls> unnamed,
                 const std::string& problem, std::function<void()> request_round)
    : process_set_(std::move(process_set)),
      plans_(
          ReadyQueue::kBuckets, [this](const Work& work) { path_->Announce(work); },
          std::move(request_round)),
      unnamed_(std::move(unnamed)),
      round_work_(state, horovod, id, *process_set_, plans_, *unnamed_,
                  problem.empty() ? [this] { Open(); } : std::function<void()>()),
      state_(state),
      timeline_(horovod.timeline) {
  plans_.SetRanks(process_set_->controller->GetSize());
  if (!problem.empty()) plans_.Disable(problem);
}

std::string SetPath::Failure() const {
  const std::string failure = path_ == nullptr ? "" : path_->Failure();
  return failure.empty() ? round_work_.Failure() : failure;
}

void SetPath::Open() {
  auto& controller = *process_set_->controller;
  const Groups groups = OneGroup(controller.GetRank(), controller.GetSize());
  std::string problem;
  node_ = NodeMemory::Share(controller, groups, problem);
  if (node_ == nullptr) {
    SayOnce(controller, "mode topo: the process set of rank " +
                            std::to_string(controller.GetGlobalRanks()[0]) + " and " +
                            std::to_string(controller.GetSize() - 1) +
                            " more is negotiated: " + problem);
    plans_.Disable(problem);
    return;
  }
  path_ =
      std::make_unique<PlannedPath>(controller, timeline_, plans_, *node_, PlannedPath::Network(),
                                    nullptr, state_.path_counters, state_.planned_cpus);
  std::lock_guard<std::mutex> lock(dump_mutex_);
  dumped_path_ = path_.get();
}

void SetPath::DumpState(StatePage& page) {
  const std::string set = "process set " + std::to_string(round_work_.id());
  std::unique_lock<std::mutex> lock(dump_mutex_, std::defer_lock);
  page.Under(lock, set, [&] {
    const PlannedPath* const path = dumped_path_;
    plans_.DumpState(page, round_work_.id(), [path](int bucket_id) {
      return path == nullptr ? "" : path->DescribeReadiness(bucket_id);
    });
    if (path == nullptr) return;
    page.Line(0, set + ":");
    path->DumpState(page);
  });
}

void SetPath::Finish(std::chrono::seconds patience) {
  if (path_ != nullptr) path_->Finish(patience);
}

void SetPath::Close(const Status& status) {
  plans_.Finish();  // no thread of a framework comes any more
  {
    std::lock_guard<std::mutex> lock(dump_mutex_);
    dumped_path_ = nullptr;
  }
  path_.reset();
  const auto arrivals = plans_.Close();
  node_.reset();
  for (const ArrivalPtr& arrival : arrivals) TensorOf(arrival).entry.FinishWithCallback(status);
}

}  // namespace horovod_opt
