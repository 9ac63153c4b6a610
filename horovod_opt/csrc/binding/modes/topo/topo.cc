#include "horovod_opt/csrc/binding/modes/topo/topo.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "horovod/common/controller.h"
#include "horovod/common/global_state.h"
#include "horovod/common/logging.h"
#include "horovod_opt/csrc/binding/base/rank_rows.h"
#include "horovod_opt/csrc/binding/base/say.h"
#include "horovod_opt/csrc/binding/network/group_transport.h"
#include "horovod_opt/csrc/binding/reduction/planned_tensor.h"
#include "horovod_opt/csrc/core/plan/plan.h"

namespace horovod_opt {
namespace {

using horovod::common::HorovodGlobalState;
using horovod::common::LogLevel;
using horovod::common::LogMessage;
using horovod::common::ProcessSet;
using horovod::common::Request;
using horovod::common::Response;
using horovod::common::TensorTableEntry;

// How long a rank waits at the end for others that may have died.
constexpr std::chrono::seconds kPatienceAtTheEnd(10);

}  // namespace

Topo::Topo(State& state, HorovodGlobalState& horovod, PerformOperation perform)
    : state_(state),
      horovod_(horovod),
      plans_(
          ReadyQueue::kBuckets, [this](const Work& work) { path_->Announce(work); },
          [this] { RequestRound(); }),
      horovod_ops_(horovod, perform, plans_, state.path_counters,
                   state.settings.shared_memory == 0 || state.settings.deterministic != 0,
                   state.settings.verify != 0),
      rounds_(
          std::chrono::milliseconds(state.settings.heartbeat_ms), horovod_ops_,
          [this] { return WantsRound(); }, [this] { CheckPeers(); }),
      round_work_(state, horovod, plans_, horovod_ops_, rounds_),
      set_round_work_(state, horovod, 0, horovod.process_set_table.Get(0), plans_, unnamed_) {
  plans_.SetRanks(horovod.global_controller->GetSize());
  PlannedPath::Network network;
  const std::string problem = Connect(network);
  rounds_.Connect(node_.get(), node_ == nullptr || !groups_.Alone(), groups_.index == 0);
  if (!problem.empty()) {
    SayOnce(*horovod.global_controller,
            "mode topo: nothing is planned, every tensor is negotiated: " + problem);
    plans_.Disable(problem);
    return;
  }
  PathCounters& counters = state.path_counters;
  path_ = std::make_unique<PlannedPath>(*horovod.global_controller, horovod.timeline, plans_,
                                        *node_, std::move(network), &horovod_ops_, counters,
                                        state.planned_cpus);
  if (!groups_.Alone() && groups_.index == 0) {
    ops_order_ =
        std::make_unique<HorovodOpsOrderThread>(*node_, *path_->engine(), groups_, counters);
  }
  if (path_->engine() != nullptr) rounds_.ConnectGroups(*path_->engine());
}

std::string Topo::Connect(PlannedPath::Network& network) {
  auto& controller = *horovod_.global_controller;
  const int rank = controller.GetRank();
  std::vector<int> node_of;
  const std::string first_of_node = std::to_string(controller.GetLocalCommRanks()[0]);
  for (const auto& first : GatherRows(controller, first_of_node)) {
    node_of.push_back(std::stoi(first));
  }
  groups_ = MakeGroups(node_of, state_.settings.node_ranks, rank);
  std::string problem;
  node_ = NodeMemory::Share(controller, groups_, problem);
  if (node_ == nullptr && groups_.ranks.size() > 1) {
    SayOnce(*horovod_.global_controller,
            "mode topo: the ranks of a node share no memory and reduce as if each had a node of "
            "its own: " +
                problem);
    groups_ = MakeGroups(node_of, 1, rank);
    node_ = NodeMemory::Share(controller, groups_, problem);
  }
  if (node_ == nullptr || groups_.Alone()) return problem;
  if (!horovod_ops_.performs_all()) plans_.SetGroup(groups_.ranks);
  GroupTransport connection = ConnectGroups(horovod_, groups_, state_.settings.tcp_messages != 0);
  state_.messages = connection.way;
  if (connection.transport == nullptr) problem = connection.why;
  if (rank == 0) LOG(INFO, rank) << "messages between nodes: " << connection.why;
  network.transport = std::move(connection.transport);
  network.memory = std::int64_t{state_.settings.message_memory_mb} << 20;
  network.group = groups_.group;
  network.groups = static_cast<int>(groups_.cross.size());
  network.all_ranks = groups_.all;
  network.give_back = [this](std::vector<ArrivalPtr> arrivals) {
    for (ArrivalPtr& arrival : arrivals) BackToNegotiation(horovod_, std::move(arrival));
  };
  network.hear = [this](std::uint64_t round) { rounds_.Hear(round); };
  return problem;
}

void Topo::BeginRound(std::chrono::nanoseconds rest) {
  rounds_.Begin(rest);
  FollowProcessSets();
  std::vector<SetRoundWork*> sets{&set_round_work_};
  for (const auto& [id, set] : sets_) sets.push_back(&set->round_work());
  const std::string failures = round_work_.Meet(sets, Failure());
  if (failures.empty()) return;
  failure_reported_ = true;
  throw std::runtime_error("The ranks cannot go on together; what each was about to reduce:" +
                           failures);
}

// Where rounds are in the queue, the others may wait in a bucket before the round, so they cannot
// be told. They notice that this rank is gone: its group here, other groups by their connection.
void Topo::CheckPeers() {
  const std::string failure = Failure();
  if (!failure.empty()) {
    failure_reported_ = true;
    throw std::runtime_error("This rank cannot go on: " + failure);
  }
  const std::string missing = node_->Missing();
  if (!missing.empty()) throw std::runtime_error(missing + "; the others wait for it in a bucket");
}

// Upstream's operations are told only of sums.
bool Topo::CanBePlanned(Collective collective) const {
  return collective == Collective::kAllreduce || !horovod_ops_.performs_all();
}

void Topo::LearnCalls(const Response& response, ProcessSet& process_set) {
  if (path_ == nullptr) return;
  if (&process_set != &horovod_.process_set_table.Get(0)) {
    // A set that was made in this round has no path before the next one.
    for (const auto& [id, set] : sets_) {
      if (set->process_set().get() != &process_set) continue;
      set->round_work().Learn(response, [](Collective) { return true; });
    }
    return;
  }
  if (round_work_.AnyRankJoined()) return;
  set_round_work_.Learn(response, [this](Collective kind) { return CanBePlanned(kind); });
}

bool Topo::WantsRound() const {
  return round_work_.HasRequests() || std::any_of(sets_.begin(), sets_.end(), [](const auto& set) {
           return set.second->plans().WantsVote();
         });
}

std::string Topo::Obstacle(const std::vector<int>& ranks) const {
  if (path_ == nullptr) return "nothing is planned";
  if (horovod_ops_.performs_all()) return "Horovod's own operations are to reduce everything";
  for (int rank : ranks) {
    if (std::find(groups_.ranks.begin(), groups_.ranks.end(), rank) == groups_.ranks.end())
      return "rank " + std::to_string(rank) + " does not share the memory of the others";
  }
  return "";
}

void Topo::FollowProcessSets() {
  auto& table = horovod_.process_set_table;
  for (auto entry = sets_.begin(); entry != sets_.end();) {
    const auto set = entry->second;
    if (table.Find(entry->first) == set->process_set()) {
      ++entry;
      continue;
    }
    {
      std::lock_guard<std::shared_mutex> lock(mutex_);
      unnamed_of_sets_.erase(entry->first);
      entry = sets_.erase(entry);
    }
    set->Close(horovod::common::PROCESS_SET_HAS_BEEN_REMOVED);
  }
  auto ids = table.Ids();
  std::sort(ids.begin(), ids.end());
  for (const int id : ids) {
    if (id == 0 || sets_.count(id) > 0) continue;
    auto process_set = table.Find(id);
    if (process_set == nullptr || !process_set->initialization_done ||
        !process_set->IsCurrentProcessIncluded()) {
      continue;
    }
    const std::string problem = Obstacle(process_set->controller->GetGlobalRanks());
    const auto set = std::make_shared<SetPath>(state_, horovod_, id, std::move(process_set),
                                               UnnamedOf(id), problem, [this] { RequestRound(); });
    std::lock_guard<std::mutex> plans(state_.mutex);  // nothing is added meanwhile
    for (const std::string& text : state_.plans) {
      Plan plan = ParsePlan(text);
      if (plan.process_set == id) set->plans().Add(std::move(plan));
    }
    std::lock_guard<std::shared_mutex> lock(mutex_);
    sets_[id] = set;
  }
}

std::shared_ptr<PlanTable> Topo::PlansOf(int process_set_id) {
  if (process_set_id == 0) return {std::shared_ptr<void>(), &plans_};  // never deleted
  std::shared_lock<std::shared_mutex> lock(mutex_);
  const auto set = sets_.find(process_set_id);
  if (set == sets_.end()) return nullptr;
  return {set->second, &set->second->plans()};
}

std::map<int, std::shared_ptr<PlanTable>> Topo::AllPlans() {
  std::map<int, std::shared_ptr<PlanTable>> all{{0, PlansOf(0)}};
  std::shared_lock<std::shared_mutex> lock(mutex_);
  for (const auto& [id, set] : sets_) all[id] = {set, &set->plans()};
  return all;
}

void Topo::DumpState(StatePage& page) {
  rounds_.DumpState(page);
  horovod_ops_.DumpState(page);
  std::unique_lock<std::mutex> open(dump_mutex_, std::defer_lock);
  page.Under(open, "the planned path, which shuts down", [&] {
    if (closed_) return page.Line(0, "the planned path is shut down");
    plans_.DumpState(page, 0, [this](int bucket_id) {
      return path_ == nullptr ? "" : path_->DescribeReadiness(bucket_id);
    });
    if (path_ != nullptr) path_->DumpState(page);
    if (node_ == nullptr) return;
    const std::string missing = node_->Missing();
    if (!missing.empty()) page.Line(0, missing + " from the memory that the ranks share");
  });
  std::vector<std::shared_ptr<SetPath>> sets;
  page.Under(std::shared_lock<std::shared_mutex>(mutex_, std::defer_lock), "the process sets", [&] {
    for (const auto& [id, set] : sets_) sets.push_back(set);
  });
  for (const auto& set : sets) set->DumpState(page);
}

std::shared_ptr<UnnamedCalls> Topo::UnnamedOf(int process_set_id) {
  if (process_set_id == 0) return {std::shared_ptr<void>(), &unnamed_};  // never deleted
  std::lock_guard<std::shared_mutex> lock(mutex_);
  auto& unnamed = unnamed_of_sets_[process_set_id];
  if (unnamed == nullptr) unnamed = std::make_shared<UnnamedCalls>();
  return unnamed;
}

std::shared_ptr<ProcessSet> Topo::ProcessSetOf(int id) const {
  return horovod_.process_set_table.Find(id);
}

// Those that have joined last have made fewer calls.
void Topo::AllJoined() {
  plans_.Restart();
  unnamed_.DropAll();
}

bool Topo::Join(TensorTableEntry& entry, Request& request) {
  if (!round_work_.Join(entry, request)) return false;
  RequestRound();
  return true;
}

std::string Topo::Failure() const {
  if (ops_order_ != nullptr && !ops_order_->Failure().empty()) {
    return "cannot agree with the other nodes on the order of buckets (" + ops_order_->Failure() +
           ")";
  }
  for (const auto& [id, set] : sets_) {
    const std::string failure = set->Failure();
    if (!failure.empty()) return failure + ", in process set " + std::to_string(id);
  }
  const std::string failure = path_ == nullptr ? "" : path_->Failure();
  return failure.empty() ? set_round_work_.Failure() : failure;
}

void Topo::Finish() {
  if (path_ == nullptr) return;
  const auto await_all_ranks = [&] {
    std::vector<long long> nothing{0};
    horovod_.global_controller->CrossRankBitwiseOr(nothing, 1);
  };
  for (const auto& [id, plans] : AllPlans()) plans->Finish();
  await_all_ranks();  // nothing becomes ready any more
  if (!groups_.Alone()) {
    const auto rows = GatherByRank(*horovod_.global_controller, plans_.CompletionRow());
    path_->Await(plans_.UntakenBuckets(rows), kPatienceAtTheEnd);
  }
  if (ops_order_ != nullptr) ops_order_->Finish();
  await_all_ranks();  // nothing is appended to any ready queue
  path_->Finish(kPatienceAtTheEnd);
  for (const auto& [id, set] : sets_) set->Finish(kPatienceAtTheEnd);
  while (horovod_ops_.PerformUntilRound()) continue;
}

void Topo::Close() {
  // The script may have caught the error and shut Horovod down before the next round.
  const std::string failure = Failure();
  if (!failure.empty() && !failure_reported_) {
    Say("rank " + std::to_string(state_.rank) + " could not go on: " + failure);
  }
  std::map<int, std::shared_ptr<SetPath>> sets;
  {
    std::lock_guard<std::shared_mutex> lock(mutex_);
    sets.swap(sets_);
  }
  for (const auto& [id, set] : sets) set->Close(horovod::common::SHUT_DOWN_ERROR);
  {
    std::lock_guard<std::mutex> lock(dump_mutex_);
    closed_ = true;
  }
  rounds_.Close();
  ops_order_.reset();
  plans_.Finish();  // no thread of a framework comes any more
  path_.reset();
  auto arrivals = plans_.Close();
  for (ArrivalPtr& arrival : horovod_ops_.Close()) arrivals.push_back(std::move(arrival));
  node_.reset();
  round_work_.Close();
  for (ArrivalPtr& arrival : arrivals) {
    TensorOf(arrival).entry.FinishWithCallback(horovod::common::SHUT_DOWN_ERROR);
  }
}

}  // namespace horovod_opt
