// Ranks of several groups as threads, each with its plans; framework threads send to them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/elements/arithmetic.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/reduction/internode_buckets.h"
#include "tests/native/network/loopback.h"
#include "tests/native/plan/sample_plans.h"
#include "tests/native/reduction/node_ranks.h"
#include "tests/native/waiting/await.h"

namespace horovod_opt {
namespace internode_ranks {

using Numbers = std::vector<std::int32_t>;
// Of allreduces and reducescatters.
constexpr Reduction kInts{data_type::kInt32, reduce_op::kSum, 2.0, 0.5};
constexpr int kIds = 64;
constexpr std::size_t kChunk = 4 << 10;  // of the node's memory
constexpr NonblockingAllreduce::Sizes kSizes{1 << 10, 8 << 10};
constexpr int kThreads = 2;  // of a framework

struct Tensor : Arrival {
  bool DataReady() override { return late_looks-- <= 0; }
  std::shared_ptr<void> Memory() const override { return memory; }
  std::shared_ptr<char> AllocateResult(std::int64_t all) override {
    sums.assign(static_cast<std::size_t>(all) * row, -1);
    if (without_memory) return nullptr;
    return {memory, reinterpret_cast<char*>(sums.data())};
  }

  std::int64_t key = 0;
  int rank = 0;
  Collective collective = Collective::kAllreduce;
  std::size_t row = 1;  // numbers in a row
  int root = 0;         // of a broadcast
  Numbers values, sums;
  std::shared_ptr<char> memory =
      std::make_shared<char>();  // stands for that of both, to be counted
  int late_looks = 0;            // that see no data yet
  bool without_memory = false;   // for the result
  std::atomic<bool>* done = nullptr;
  Numbers* result = nullptr;  // the sums, or what has been gathered

  void Finish() {
    const bool gives = collective == Collective::kBroadcast && rank == root;
    *result = gives ? values : sums;
    done->store(true);
  }
};

inline Tensor& TensorOf(const ArrivalPtr& arrival) { return static_cast<Tensor&>(*arrival); }

// What all ranks negotiate: each tensor is reduced once all have sent it.
class Negotiation {
 public:
  explicit Negotiation(int ranks) : ranks_(ranks) {}

  void Send(ArrivalPtr arrival) {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::int64_t key = TensorOf(arrival).key;
    auto& sent = sent_[key];
    sent.push_back(std::move(arrival));
    if (static_cast<int>(sent.size()) < ranks_) return;
    ++reduced_;
    std::sort(sent.begin(), sent.end(), [](const ArrivalPtr& a, const ArrivalPtr& b) {
      return TensorOf(a).rank < TensorOf(b).rank;
    });
    const Numbers result = Result(sent);
    std::size_t begin = 0;
    for (const ArrivalPtr& arrival : sent) {
      Tensor& tensor = TensorOf(arrival);
      if (tensor.collective == Collective::kReducescatter) {
        const auto size = OwnRows(tensor) * tensor.row;
        tensor.sums.assign(result.begin() + begin, result.begin() + begin + size);
        begin += size;
      } else {
        tensor.sums = result;
      }
      tensor.Finish();
    }
    sent.clear();
  }

  int reduced() const { return reduced_; }

  std::size_t OwnRows(const Tensor& tensor) const {
    const auto rows = static_cast<std::int64_t>(tensor.values.size() / tensor.row);
    return static_cast<std::size_t>(RowsOf(rows, tensor.rank, ranks_));
  }

 private:
  static Numbers Result(const std::vector<ArrivalPtr>& sent) {
    Numbers result;
    for (const ArrivalPtr& arrival : sent) {
      const Numbers& values = TensorOf(arrival).values;
      if (TensorOf(arrival).collective == Collective::kBroadcast) {
        if (TensorOf(arrival).rank == TensorOf(arrival).root) return values;
        continue;
      }
      if (TensorOf(arrival).collective == Collective::kAllgather) {
        result.insert(result.end(), values.begin(), values.end());
        continue;
      }
      result.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) result[i] += values[i];
    }
    return result;
  }

  const int ranks_;
  std::mutex mutex_;
  std::map<std::int64_t, std::vector<ArrivalPtr>> sent_;
  std::atomic<int> reduced_{0};
};

// Where the ranks gather a row of each.
class Meetings {
 public:
  explicit Meetings(int ranks) : rows_(ranks) {}

  TextByRank Gather(int rank, const std::string& row) {
    std::unique_lock<std::mutex> lock(mutex_);
    const int meeting = meetings_;
    rows_[rank] = row;
    if (++here_ == static_cast<int>(rows_.size())) {
      gathered_ = ByRank(rows_);
      here_ = 0;
      ++meetings_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return meetings_ != meeting; });
    return gathered_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> rows_;
  TextByRank gathered_;
  int here_ = 0, meetings_ = 0;
};

// The memory of a group.
struct Node {
  explicit Node(int ranks) : collectives(NodeCollectives::Bytes(ranks, kChunk)) {}
  Zeros queue{ReadyQueue::Bytes()};
  Zeros collectives;
};

struct World {
  // The ranks are numbered group by group; in the job, as `everybody` says.
  World(int number_of_groups, int ranks_of_each, std::vector<int> order = {})
      : everybody(std::move(order)),
        groups(number_of_groups),
        ranks(ranks_of_each),
        nets(static_cast<std::size_t>(ranks_of_each)),
        meetings(groups * ranks),
        negotiation(groups * ranks) {
    if (everybody.empty()) {
      everybody.resize(static_cast<std::size_t>(Size()));
      std::iota(everybody.begin(), everybody.end(), 0);
    }
    for (int group = 0; group < groups; ++group) nodes.push_back(std::make_unique<Node>(ranks));
  }
  int Size() const { return groups * ranks; }

  std::vector<int> everybody;
  const int groups, ranks;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Loopback> nets;  // by number in the group
  Meetings meetings;
  Negotiation negotiation;
  std::atomic<int> reduced{0}, incomplete{0}, given_back{0}, differs{0};
  bool ends_must_stay = false;  // as with MPI
};

inline std::size_t RowOf(const Slot& slot) {
  const bool scatters = slot.collective == Collective::kReducescatter;
  if (scatters && slot.rows == 0) return 1;
  return static_cast<std::size_t>(slot.bytes / (scatters ? slot.rows : 1) / 4);
}

class Rank {
 public:
  Rank(World& world, int rank)
      : world_(world),
        rank_(rank),
        queue_(NodeOf().queue.As<ReadyQueue>()),
        node_(NodeOf().collectives.data(), NodeOf().collectives.size(), rank % world.ranks,
              world.ranks),
        engine_(
            std::make_unique<Loopback::End>(world.nets[rank % world.ranks], rank / world.ranks,
                                            static_cast<unsigned>(rank) + 1, world.ends_must_stay),
            rank % 2 == 0 ? 0 : 64 << 20, [] {}, [] {}),
        internode_(
            plans_, queue_, node_, engine_, world.everybody, rank % world.ranks, rank / world.ranks,
            world.groups,
            {[](const Work&) {},
             [this](Work work, InternodeBuckets::Outcome outcome, auto) { End(work, outcome); },
             [this](std::vector<ArrivalPtr> arrivals) {
               ++world_.given_back;
               for (auto& arrival : arrivals) world_.negotiation.Send(std::move(arrival));
             }},
            kSizes) {
    std::vector<int> group(static_cast<std::size_t>(world.ranks));
    std::iota(group.begin(), group.end(), rank / world.ranks * world.ranks);
    plans_.SetGroup(group);
    planned_ = std::thread([this] { RunPlanned(); });
  }

  ~Rank() {
    end_ = true;
    queue_.Kick();
    planned_.join();
    engine_.Close();
    EXPECT_EQ(engine_.Failure(), "");
    EXPECT_EQ(plans_.Close().size(), leftovers_);
  }

  PlanTable& plans() { return plans_; }
  std::string State() const {
    StatePage page;
    internode_.DumpState(page);
    return page.Text();
  }
  void TakeMemoryAway() { without_memory_ = true; }
  // So many tensors are left in the end.
  void Leave(std::size_t tensors) { leftovers_ = tensors; }

  // Returns the memory of the tensor.
  std::weak_ptr<char> Send(const Slot& slot, Numbers values, int late_looks, Numbers& result,
                           std::atomic<bool>& done) {
    auto tensor = std::make_unique<Tensor>();
    tensor->key = slot.key;
    tensor->rank = world_.everybody[rank_];
    tensor->collective = slot.collective;
    tensor->row = RowOf(slot);
    tensor->root = slot.root;
    tensor->values = std::move(values);
    tensor->sums.assign(slot.collective == Collective::kReducescatter
                            ? world_.negotiation.OwnRows(*tensor) * tensor->row
                            : tensor->values.size(),
                        -1);
    tensor->late_looks = late_looks;
    tensor->without_memory = without_memory_;
    tensor->result = &result;
    tensor->done = &done;
    const std::weak_ptr<char> memory = tensor->memory;
    if (slot.collective == Collective::kAllgather)
      tensor->rows = static_cast<std::int64_t>(tensor->values.size() / tensor->row);
    tensor->segment = {tensor->values.data(),
                       slot.collective == Collective::kAllgather ? nullptr : tensor->sums.data(),
                       slot.bytes};
    ArrivalPtr arrival = std::move(tensor);
    const Route route = ArriveAt(plans_, slot.key, arrival, slot.bytes, slot.reduction);
    EXPECT_NE(route, Route::kOverlaps);
    if (route == Route::kNegotiated) world_.negotiation.Send(std::move(arrival));
    return memory;
  }

  // Votes until all ranks say that they are done and no plan has anything under way.
  void Vote(const std::atomic<int>& remaining) {
    for (;;) {
      const bool done = remaining == 0;
      const auto answers = world_.meetings.Gather(rank_, done ? "done" : "");
      const auto rows = world_.meetings.Gather(rank_, plans_.VoteRow(rank_ == 0, false));
      auto outcome = plans_.Apply(rows);
      EXPECT_TRUE(outcome.to_refuse.empty());
      for (ArrivalPtr& arrival : outcome.to_negotiate) world_.negotiation.Send(std::move(arrival));
      if (std::all_of(answers.begin(), answers.end(),
                      [](const auto& row) { return row.second.str() != ""; }))
        return;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }

  // As a rank does in the end; true if everything that it has to wait for has ended.
  bool AwaitTheRest() {
    plans_.Finish();
    world_.meetings.Gather(rank_, "");
    const auto rows = world_.meetings.Gather(rank_, plans_.CompletionRow());
    const auto untaken = plans_.UntakenBuckets(rows);
    return Await([&] { return !plans_.AnyUntaken(untaken); });
  }

 private:
  Node& NodeOf() { return *world_.nodes[rank_ / world_.ranks]; }

  void End(const Work& work, InternodeBuckets::Outcome outcome) {
    if (outcome == InternodeBuckets::Outcome::kDiffers) {
      ++world_.differs;
    } else {
      plans_.MarkReduced(work);
      ++(outcome == InternodeBuckets::Outcome::kReduced ? world_.reduced : world_.incomplete);
    }
    for (const ArrivalPtr& arrival : work.arrivals) {
      if (arrival != nullptr) TensorOf(arrival).Finish();
    }
  }

  void RunPlanned() {
    WaitCounts waits;
    int entry = 0;
    for (std::uint64_t position = 0; queue_.Next(position, entry, end_, waits); ++position) {
      if (InternodeBuckets::IsEnd(entry)) {
        ASSERT_TRUE(internode_.End(entry, never_, waits));
      } else {
        ASSERT_TRUE(internode_.Begin(entry, never_, waits));
      }
    }
  }

  World& world_;
  const int rank_;
  bool without_memory_ = false;
  std::size_t leftovers_ = 0;
  std::atomic<bool> end_{false};
  const std::atomic<bool> never_{false};
  ReadyQueue& queue_;
  NodeCollectives node_;
  PlanTable plans_{kIds, [this](const Work& work) { internode_.Announce(work); }, [] {}};
  ProgressEngine engine_;
  InternodeBuckets internode_;
  std::thread planned_;
};

// The same, by which other ranks mean something else.
inline std::vector<Plan> Different(std::vector<Plan> plans) {
  for (Plan& plan : plans) plan.hash += "-other";
  return plans;
}

// All of the world, each with these plans; the first group with its own, if it has.
inline std::vector<std::unique_ptr<Rank>> RanksWith(World& world, const std::vector<Plan>& plans,
                                                    std::vector<Plan> of_first_group = {}) {
  if (of_first_group.empty()) of_first_group = plans;
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < world.Size(); ++rank) {
    all.push_back(std::make_unique<Rank>(world, rank));
    for (const Plan& plan : rank < world.ranks ? of_first_group : plans)
      EXPECT_TRUE(Activate(all[rank]->plans(), plan));
  }
  return all;
}

}  // namespace internode_ranks
}  // namespace horovod_opt
