// Ranks of several groups as threads, each with its plans, framework threads that send in random
// orders, and votes in which plans end while their buckets are on the way; ThreadSanitizer looks on.
#include "horovod_opt/csrc/core/plan/exchanged_buckets.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/shm/elementwise.h"
#include "tests/native/nodes/loopback.h"
#include "tests/native/plan/sample_plans.h"
#include "tests/native/shm/node_ranks.h"

namespace horovod_opt {
namespace {

using Numbers = std::vector<std::int32_t>;
const Arithmetic kInts{4, &elementwise::Reduce<std::int32_t, elementwise::Sum>,
                       [](void* data, std::int64_t count, double factor) {
                         auto* const values = static_cast<std::int32_t*>(data);
                         for (std::int64_t i = 0; i < count; ++i) {
                           values[i] = static_cast<std::int32_t>(values[i] * factor);
                         }
                       }};
constexpr int kIds = 64;
constexpr std::size_t kChunk = 4 << 10;  // of the node's memory
constexpr Exchange::Sizes kSizes{1 << 10, 8 << 10};
constexpr int kThreads = 2;  // of a framework
constexpr int kSlots = 6;

struct Tensor : Arrival {
  bool DataReady() override { return late_looks-- <= 0; }
  std::int64_t key = 0;
  Numbers values, sums;
  int late_looks = 0;  // that see no data yet
  std::atomic<bool>* done = nullptr;
  Numbers* result = nullptr;

  void Finish() {
    *result = sums;
    done->store(true);
  }
};

Tensor& TensorOf(const ArrivalPtr& arrival) { return static_cast<Tensor&>(*arrival); }

// From one number to several chunks of an exchange; some that the ranks cannot share evenly.
std::size_t SizeOf(std::int64_t key) {
  const std::size_t sizes[] = {1, 17, 3, 3000, 260, 9001};
  return sizes[key % 6];
}

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
    Numbers sums(TensorOf(sent[0]).values.size(), 0);
    for (const ArrivalPtr& one : sent) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += TensorOf(one).values[i];
    }
    for (const ArrivalPtr& one : sent) {
      TensorOf(one).sums = sums;
      TensorOf(one).Finish();
    }
    sent.clear();
  }

  int reduced() const { return reduced_; }

 private:
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
  World(int number_of_groups, int ranks_of_each)
      : groups(number_of_groups),
        ranks(ranks_of_each),
        nets(static_cast<std::size_t>(ranks_of_each)),
        meetings(groups * ranks),
        negotiation(groups * ranks) {
    for (int group = 0; group < groups; ++group) nodes.push_back(std::make_unique<Node>(ranks));
  }
  int Size() const { return groups * ranks; }

  const int groups, ranks;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Loopback> nets;  // by number in the group
  Meetings meetings;
  Negotiation negotiation;
  std::atomic<int> reduced{0}, given_back{0}, differs{0};
};

Plan Call(int number) {
  std::vector<int> bucket(kSlots);
  std::iota(bucket.begin(), bucket.end(), 0);
  // Two buckets, so that one may be complete and the other not.
  Buckets buckets{{bucket.begin(), bucket.begin() + 2}, {bucket.begin() + 2, bucket.end()}};
  const std::int64_t first_key = 6 * (number + 1);
  Plan plan = MakePlan("p" + std::to_string(number), kSlots, buckets, first_key);
  for (int slot = 0; slot < kSlots; ++slot) {
    plan.slots[slot].bytes = static_cast<std::int64_t>(SizeOf(first_key + slot) * 4);
  }
  plan.is_call = true;
  return plan;
}

class Rank {
 public:
  Rank(World& world, int rank)
      : world_(world),
        rank_(rank),
        queue_(NodeOf().queue.As<ReadyQueue>()),
        node_(NodeOf().collectives.data(), NodeOf().collectives.size(), rank % world.ranks,
              world.ranks),
        exchanges_(
            std::make_unique<Loopback::End>(world.nets[rank % world.ranks], rank / world.ranks,
                                            static_cast<unsigned>(rank) + 1),
            rank % 2 == 0 ? 0 : 64 << 20, [] {}, [] {}),
        exchanged_(plans_, queue_, node_, exchanges_, rank % world.ranks, world.ranks,
                   rank / world.ranks, world.groups,
                   {[](const CompleteBucket& bucket) {
                      std::vector<Segment> segments;
                      for (std::size_t i = 0; i < bucket.slots.size(); ++i) {
                        const std::int64_t bytes = bucket.plan.slots[bucket.slots[i]].bytes;
                        Tensor& one = TensorOf(bucket.arrivals[i]);
                        segments.push_back({one.values.data(), one.sums.data(), bytes});
                      }
                      return BucketReduction(segments, kInts, 2, 0.5);
                    },
                    [this](const CompleteBucket& bucket) {
                      return odd_tag_ + bucket.iteration * kIds +
                             static_cast<std::uint64_t>(bucket.turn.bucket_id);
                    },
                    [](const CompleteBucket&) {},
                    [this](Work work, auto) {
                      plans_.Finished(work);
                      ++world_.reduced;
                      for (const ArrivalPtr& arrival : work.arrivals) TensorOf(arrival).Finish();
                    },
                    [this](Work work) {
                      ++world_.differs;
                      for (const ArrivalPtr& arrival : work.arrivals) TensorOf(arrival).Finish();
                    },
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
    exchanges_.Close();
    EXPECT_EQ(exchanges_.Failure(), "");
    EXPECT_EQ(plans_.Close().size(), left_);
  }

  PlanTable& plans() { return plans_; }
  void MakeTagsOdd() { odd_tag_ = 1000000; }
  // So many tensors are left in the end.
  void Leave(std::size_t tensors) { left_ = tensors; }

  void Send(std::int64_t key, Numbers values, int late_looks, Numbers& result,
            std::atomic<bool>& done) {
    auto tensor = std::make_unique<Tensor>();
    tensor->key = key;
    tensor->sums.assign(values.size(), -1);
    tensor->values = std::move(values);
    tensor->late_looks = late_looks;
    tensor->result = &result;
    tensor->done = &done;
    const auto bytes = static_cast<std::int64_t>(4 * tensor->values.size());
    ArrivalPtr arrival = std::move(tensor);
    const Route route = plans_.Arrive(key, bytes, {}, "", arrival);
    ASSERT_NE(route, Route::kOverlaps);
    if (route == Route::kNegotiated) world_.negotiation.Send(std::move(arrival));
  }

  // Votes until all ranks say that they are done and no plan has anything under way.
  void Vote(const std::atomic<int>& left) {
    for (;;) {
      const bool done = left == 0;
      const auto said = world_.meetings.Gather(rank_, done ? "done" : "");
      const auto rows = world_.meetings.Gather(rank_, plans_.VoteRow(rank_ == 0, false));
      auto outcome = plans_.Apply(rows);
      EXPECT_TRUE(outcome.overlapping.empty());
      for (ArrivalPtr& arrival : outcome.negotiated) world_.negotiation.Send(std::move(arrival));
      if (std::all_of(said.begin(), said.end(),
                      [](const auto& one) { return one.second.str() != ""; }))
        return;
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }

  // As a rank does in the end; true if everything that it has to wait for has ended.
  bool AwaitTheRest() {
    plans_.Finish();
    world_.meetings.Gather(rank_, "");
    const auto rows = world_.meetings.Gather(rank_, plans_.CompletedRow());
    const auto left = plans_.LeftToEnd(rows);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (plans_.AnyLeft(left) && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    return !plans_.AnyLeft(left);
  }

 private:
  Node& NodeOf() { return *world_.nodes[rank_ / world_.ranks]; }

  void RunPlanned() {
    WaitCounts waits;
    int entry = 0;
    for (std::uint64_t position = 0; queue_.Next(position, entry, end_, waits); ++position) {
      if (ExchangedBuckets::IsEnd(entry)) {
        ASSERT_TRUE(exchanged_.End(entry, never_, waits));
      } else {
        ASSERT_TRUE(exchanged_.Begin(entry, never_, waits));
      }
    }
  }

  World& world_;
  const int rank_;
  std::uint64_t odd_tag_ = 0;
  std::size_t left_ = 0;
  std::atomic<bool> end_{false};
  const std::atomic<bool> never_{false};
  ReadyQueue& queue_;
  NodeCollectives node_;
  PlanTable plans_{kIds, [this](const CompleteBucket& bucket) { exchanged_.Announce(bucket); },
                   [] {}};
  Exchanges exchanges_;
  ExchangedBuckets exchanged_;
  std::thread planned_;
};

Numbers ValuesOf(int rank, std::int64_t key, int iteration) {
  Numbers values(SizeOf(key));
  std::iota(values.begin(), values.end(), 10000 * rank + 100 * static_cast<int>(key) + iteration);
  return values;
}

Numbers SumsOf(int ranks, std::int64_t key, int iteration) {
  const int all = 100 * static_cast<int>(key) + iteration;
  Numbers sums(SizeOf(key));
  for (std::size_t i = 0; i < sums.size(); ++i) {
    sums[i] = ranks * (all + static_cast<int>(i)) + 10000 * ranks * (ranks - 1) / 2;
  }
  return sums;
}

// One iteration of a plan, its tensors in random order. `after(n)` is called after the n-th.
template <class After>
void Iterate(Rank& own, int rank, int ranks, const Plan& plan, int iteration,
             std::minstd_rand& random, const After& after) {
  std::vector<Numbers> results(kSlots);
  std::array<std::atomic<bool>, kSlots> done{};
  std::vector<int> order(kSlots);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (int n = 0; n < kSlots; ++n) {
    const std::int64_t key = plan.slots[order[n]].key;
    own.Send(key, ValuesOf(rank, key, iteration), random() % 16 == 0 ? 3 : 0, results[order[n]],
             done[order[n]]);
    if (random() % 8 == 0) std::this_thread::yield();
    after(n);
  }
  for (int slot = 0; slot < kSlots; ++slot) {
    while (!done[slot]) std::this_thread::yield();
    const std::int64_t key = plan.slots[slot].key;
    ASSERT_EQ(results[slot], SumsOf(ranks, key, iteration))
        << "key " << key << ", iteration " << iteration << ", rank " << rank;
  }
}

// Groups and ranks of each.
class ExchangedBucketsRanks : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(ExchangedBucketsRanks, EveryTensorGetsItsSumAlsoWhenPlansEnd) {
  constexpr int kPlans = 4, kIterations = 6;  // of each thread, and of each plan
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  std::vector<std::unique_ptr<Rank>> all;
  std::vector<Plan> plans;
  for (int number = 0; number < kThreads * kPlans; ++number) plans.push_back(Call(number));
  for (int rank = 0; rank < world.Size(); ++rank) {
    all.push_back(std::make_unique<Rank>(world, rank));
    for (const Plan& plan : plans) ASSERT_TRUE(all[rank]->plans().Learn(plan));
  }
  std::vector<std::atomic<int>> left(static_cast<std::size_t>(world.Size()));
  for (auto& one : left) one = kThreads;
  OnRanks(world.Size() * (kThreads + 1), [&](int thread) {
    const int rank = thread % world.Size(), part = thread / world.Size();
    Rank& own = *all[rank];
    if (part == kThreads) return own.Vote(left[rank]);
    std::minstd_rand random(static_cast<unsigned>(thread) + 1);
    for (int number = 0; number < kPlans; ++number) {
      const Plan& plan = plans[part * kPlans + number];
      // One rank ends the plan in the middle of this iteration, if there is such a one.
      const int last = (number * 5 + part) % (kIterations + 2);
      const int who = (3 * number + part) % world.Size();
      for (int iteration = 0; iteration < kIterations; ++iteration) {
        Iterate(own, rank, world.Size(), plan, iteration, random, [&](int n) {
          if (rank == who && iteration == last && n == number % kSlots) {
            own.plans().Reject(plan.hash, "the test says so");
          }
        });
      }
    }
    --left[rank];
  });
  EXPECT_GT(world.reduced, 0);
  EXPECT_GT(world.negotiation.reduced(), 0);
  EXPECT_EQ(world.differs, 0);
  all.clear();
  for (Loopback& net : world.nets) EXPECT_EQ(net.Left(), 0u);
}

// A group goes ahead alone; then the plan ends, the other group takes the bucket back, and both
// negotiate it.
TEST_P(ExchangedBucketsRanks, WhatOneGroupHasBegunIsTakenBackByTheOthers) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const Plan plan = Call(0);
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < world.Size(); ++rank) {
    all.push_back(std::make_unique<Rank>(world, rank));
    ASSERT_TRUE(all[rank]->plans().Learn(plan));
  }
  std::vector<std::atomic<int>> left(static_cast<std::size_t>(world.Size()));
  for (auto& one : left) one = 1;
  OnRanks(2 * world.Size(), [&](int thread) {
    const int rank = thread % world.Size();
    Rank& own = *all[rank];
    const bool first_group = rank < world.ranks;
    if (thread < world.Size()) {
      // The others vote once before they send anything.
      const auto vote = [&] {
        const auto rows = world.meetings.Gather(rank, own.plans().VoteRow(rank == 0, false));
        auto outcome = own.plans().Apply(rows);
        for (auto& arrival : outcome.negotiated) world.negotiation.Send(std::move(arrival));
      };
      std::minstd_rand random(static_cast<unsigned>(rank) + 1);
      if (!first_group) {
        world.meetings.Gather(rank, "the first group has sent");
        if (rank == world.Size() - 1) own.plans().Reject(plan.hash, "the test says so");
        vote();
      }
      Iterate(own, rank, world.Size(), plan, 0, random, [&](int n) {
        if (!first_group || n < kSlots - 1) return;
        world.meetings.Gather(rank, "the first group has sent");
        vote();
      });
      --left[rank];
    } else {
      while (left[rank] == 1) {
        // The votes of Iterate() come first.
        if (own.plans().Reports()[0].state == "negotiated") break;
        std::this_thread::yield();
      }
      own.Vote(left[rank]);
    }
  });
  EXPECT_EQ(world.reduced, 0);
  EXPECT_EQ(world.given_back, 2 * world.ranks) << "both buckets, on each rank of the first group";
  EXPECT_EQ(world.negotiation.reduced(), kSlots);
  all.clear();
  for (Loopback& net : world.nets) EXPECT_EQ(net.Left(), 0u);
}

// In the end a rank waits for what is complete everywhere, and for nothing else.
TEST_P(ExchangedBucketsRanks, TheEndWaitsForWhatAllRanksHaveSent) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const Plan plan = Call(0);
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < world.Size(); ++rank) {
    all.push_back(std::make_unique<Rank>(world, rank));
    ASSERT_TRUE(all[rank]->plans().Learn(plan));
  }
  OnRanks(world.Size(), [&](int rank) {
    std::vector<Numbers> results(kSlots);
    std::array<std::atomic<bool>, kSlots> done{};
    for (int slot = 0; slot < kSlots; ++slot) {
      if (slot == 5 && rank == 0) continue;  // of the second bucket
      const std::int64_t key = plan.slots[slot].key;
      all[rank]->Send(key, ValuesOf(rank, key, 0), 0, results[slot], done[slot]);
    }
    EXPECT_TRUE(all[rank]->AwaitTheRest());
    while (!done[1]) std::this_thread::yield();
    EXPECT_EQ(results[1], SumsOf(world.Size(), plan.slots[1].key, 0));
    EXPECT_FALSE(done[4]);
    world.meetings.Gather(rank, "all have looked");
    all[rank]->Leave(rank == 0 ? 3 : 4);  // the second bucket
  });
}

TEST_P(ExchangedBucketsRanks, GroupsThatMeanDifferentBucketsAreTold) {
  World world(std::get<0>(GetParam()), std::get<1>(GetParam()));
  const Plan plan = Call(0);
  std::vector<std::unique_ptr<Rank>> all;
  for (int rank = 0; rank < world.Size(); ++rank) {
    all.push_back(std::make_unique<Rank>(world, rank));
    if (rank < world.ranks) all[rank]->MakeTagsOdd();
    ASSERT_TRUE(all[rank]->plans().Learn(plan));
  }
  OnRanks(world.Size(), [&](int rank) {
    std::vector<Numbers> results(kSlots);
    std::array<std::atomic<bool>, kSlots> done{};
    for (int slot = 0; slot < kSlots; ++slot) {
      const std::int64_t key = plan.slots[slot].key;
      all[rank]->Send(key, ValuesOf(rank, key, 0), 0, results[slot], done[slot]);
    }
    for (int slot = 0; slot < kSlots; ++slot) {
      while (!done[slot]) std::this_thread::yield();
      EXPECT_EQ(results[slot], Numbers(results[slot].size(), -1)) << "nothing may be written";
    }
  });
  EXPECT_EQ(world.differs, 2 * world.Size()) << "each bucket, on every rank";
}

INSTANTIATE_TEST_SUITE_P(GroupsAndRanks, ExchangedBucketsRanks,
                         testing::Values(std::make_tuple(2, 1), std::make_tuple(2, 2),
                                         std::make_tuple(3, 1), std::make_tuple(3, 2),
                                         std::make_tuple(4, 1), std::make_tuple(4, 2)));

}  // namespace
}  // namespace horovod_opt
