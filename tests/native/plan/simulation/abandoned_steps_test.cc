// Invariant 8 of plan_run.h, 6 of consensus.h: whole jobs of ranks that leave steps, in orders that
// nobody thought of.
//
// All ranks train until each has had so many steps that succeeded. A step sends all slots in some order and
// waits for their sums; it succeeds if it gets all of them. Some steps are left: the rank sends a
// part of them, or all, does not wait, and begins the next.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace abandoned_steps_test {

struct Gradient : Arrival {
  Gradient(int slot_of, std::int64_t step_of) : slot(slot_of) {
    step = step_of;
    in_turn = true;
  }
  const int slot;
};

struct Leave {
  int step;   // of this rank, from 1
  int slots;  // that are sent before
};

class StepsSimulation {
 public:
  // `leaves`: by rank. `alike`: all ranks send in the same order, and leave a step after upstream
  // has reduced what they have sent.
  StepsSimulation(Plan plan, std::vector<std::vector<Leave>> leaves, int successes,
                  std::uint32_t seed, bool alike = false)
      : plan_(std::move(plan)), successes_(successes), alike_(alike), random_(seed), calls_(64, 0) {
    const std::size_t size = leaves.size();
    for (std::size_t rank = 0; rank < size; ++rank) {
      ranks_.push_back(std::make_unique<Rank>([this, size](const Work& work) {
        const int bucket_id = work.bucket->id;
        if (++calls_[bucket_id] % size == 0) queue_.push_back(bucket_id);
      }));
      ranks_.back()->leaves = leaves[rank];
      ranks_.back()->plans.Add(plan_);
    }
  }

  void Run() {
    constexpr int kAtMost = 400000;
    for (int turn = 0; !Over(); ++turn) {
      if (testing::Test::HasFailure()) return;
      if (turn == kAtMost) FAIL() << "nothing goes on: " << Describe();
      const int rank = Below(static_cast<int>(ranks_.size()));
      switch (Below(4)) {
        case 0:
          Vote(rank);
          break;
        case 1:
          ReduceNext(rank);
          break;
        default:
          Train(rank);
      }
    }
  }

  int errors(int rank) const { return ranks_[rank]->errors; }
  int planned() const { return planned_; }
  const std::set<std::string>& failures() const { return failures_; }
  PlanTable::Report report(int rank) const { return ranks_[rank]->plans.Reports()[0]; }

 private:
  enum class Sent { kNot, kYes, kReduced, kFailed };
  struct Rank {
    explicit Rank(std::function<void(const Work&)> ready) : plans(64, std::move(ready), [] {}) {}
    PlanTable plans;
    std::vector<Leave> leaves;
    std::map<std::int64_t, std::vector<Sent>> sent;  // by step
    std::map<int, std::int64_t> negotiated;          // slot -> step
    std::vector<int> order;                          // of the slots of this step that are not sent
    int step = 0, successes = 0, errors = 0;
    bool in_step = false, voted = false;
    std::string row;
    std::size_t taken = 0, reduced = 0;
    Work work;
  };

  int Below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  void Train(int number) {
    Rank& rank = *ranks_[number];
    if (!rank.in_step) {
      ++rank.step;
      rank.in_step = true;
      rank.sent[rank.step].assign(plan_.slots.size(), Sent::kNot);
      rank.order.clear();
      for (std::size_t slot = 0; slot < plan_.slots.size(); ++slot) {
        const int place = alike_ ? 0 : Below(static_cast<int>(slot) + 1);
        rank.order.insert(rank.order.begin() + place, static_cast<int>(slot));
      }
    }
    const auto left = std::find_if(rank.leaves.begin(), rank.leaves.end(), [&](const Leave& leave) {
      const auto sent = plan_.slots.size() - rank.order.size();
      return leave.step == rank.step && static_cast<std::size_t>(leave.slots) == sent;
    });
    if (left != rank.leaves.end()) {
      if (!alike_ || rank.negotiated.empty()) rank.in_step = false;
      return;
    }
    const auto& sent = rank.sent[rank.step];
    const auto has = [&](Sent state) { return std::count(sent.begin(), sent.end(), state); };
    if (!rank.order.empty()) {
      const int slot = rank.order.back();
      rank.order.pop_back();
      return Send(number, slot);
    }
    if (has(Sent::kYes) > 0) return;  // it waits
    ++(has(Sent::kFailed) > 0 ? rank.errors : rank.successes);
    rank.in_step = false;
  }

  void Send(int number, int slot) {
    Rank& rank = *ranks_[number];
    rank.sent[rank.step][slot] = Sent::kYes;
    ArrivalPtr arrival = std::make_unique<Gradient>(slot, rank.step);
    const Route route = ArriveAt(rank.plans, plan_.slots[slot].key, arrival);
    if (route == Route::kNegotiated) return Negotiate(number, *arrival);
    if (route == Route::kPlanned || route == Route::kDeferred) return;
    EXPECT_EQ(route, Route::kAbandoned);
    failures_.insert(arrival->failure);
    ++rank.errors;
    rank.in_step = false;
  }

  void Negotiate(int number, const Arrival& arrival) {
    const auto& gradient = static_cast<const Gradient&>(arrival);
    auto& own = ranks_[number]->negotiated;
    ASSERT_TRUE(own.emplace(gradient.slot, gradient.step).second) << "a duplicate name";
    for (const auto& rank : ranks_) {
      if (rank->negotiated.count(gradient.slot) == 0) return;
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto request = ranks_[rank]->negotiated.find(gradient.slot);
      Pair(static_cast<int>(rank), request->second, ranks_[0]->negotiated.at(gradient.slot));
      ranks_[rank]->sent[request->second][gradient.slot] = Sent::kReduced;
      if (rank > 0) ranks_[rank]->negotiated.erase(request);
    }
    ranks_[0]->negotiated.erase(gradient.slot);
  }

  // What goes into one sum: a step of one rank always meets the same step of another.
  void Pair(int rank, std::int64_t step, std::int64_t step_of_first) {
    const auto [pair, is_new] = pairs_.insert({{rank, step_of_first}, step});
    EXPECT_EQ(pair->second, step) << "rank " << rank << " is in another step than before, when "
                                  << "rank 0 was in step " << step_of_first;
    const auto [back, is_also_new] = pairs_back_.insert({{rank, step}, step_of_first});
    EXPECT_EQ(back->second, step_of_first);
    EXPECT_EQ(is_new, is_also_new);
  }

  void ReduceNext(int number) {
    Rank& rank = *ranks_[number];
    if (rank.reduced == rank.taken) {
      if (rank.taken == queue_.size()) return;
      rank.work = rank.plans.Take(queue_[rank.taken]);
      std::set<std::int64_t> steps;
      for (const ArrivalPtr& arrival : rank.work.arrivals) steps.insert(arrival->step);
      EXPECT_LE(steps.size(), 1u) << "a bucket of two steps";
      if (!steps.empty()) steps_[rank.taken][number] = *steps.begin();
      ++rank.taken;
      return;
    }
    for (const auto& peer : ranks_) {
      if (peer->taken < rank.taken) return;
    }
    const auto& steps = steps_[rank.reduced];
    ++rank.reduced;
    if (rank.work.IsEmpty()) return;
    ASSERT_EQ(steps.size(), ranks_.size()) << "a bucket that not all ranks reduce";
    Pair(number, steps.at(number), steps.at(0));
    rank.plans.MarkReduced(rank.work);
    ++planned_;
    for (const ArrivalPtr& arrival : rank.work.arrivals) {
      rank.sent[arrival->step][static_cast<const Gradient&>(*arrival).slot] = Sent::kReduced;
    }
    rank.work = {};
  }

  void Vote(int number) {
    if (!in_vote_) {
      in_vote_ = std::any_of(ranks_.begin(), ranks_.end(),
                             [](const auto& peer) { return peer->plans.WantsVote(); });
      if (!in_vote_) return;
    }
    Rank& rank = *ranks_[number];
    if (rank.voted) return;
    rank.voted = true;
    ++voted_;
    if (voted_ <= ranks_.size()) {
      rank.row = rank.plans.VoteRow(number == 0, true);
    } else {
      std::vector<std::string> rows;
      for (const auto& peer : ranks_) rows.push_back(peer->row);
      for (ArrivalPtr& arrival : rank.plans.Apply(ByRank(rows)).to_negotiate) {
        if (arrival->failure.empty()) {
          Negotiate(number, *arrival);
        } else {
          failures_.insert(arrival->failure);
          rank.sent[arrival->step][static_cast<const Gradient&>(*arrival).slot] = Sent::kFailed;
        }
      }
    }
    if (voted_ % ranks_.size() != 0) return;
    for (const auto& peer : ranks_) peer->voted = false;
    if (voted_ < 2 * ranks_.size()) return;
    in_vote_ = false;
    voted_ = 0;
  }

  bool Over() const {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const auto& rank) { return rank->successes >= successes_; });
  }

  std::string Describe() const {
    std::string text;
    for (const auto& rank : ranks_) {
      const auto report = rank->plans.Reports()[0];
      text += "\nstep " + std::to_string(rank->step) + ", successes " +
              std::to_string(rank->successes) + ", errors " + std::to_string(rank->errors) + ", " +
              report.state + ", " + report.reason;
    }
    return text;
  }

  const Plan plan_;
  const int successes_;
  const bool alike_;
  Random random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::size_t> calls_;  // of `ready`, by bucket ID
  std::vector<int> queue_;
  std::map<std::size_t, std::map<int, std::int64_t>> steps_;  // by entry of the queue, rank
  std::map<std::pair<int, std::int64_t>, std::int64_t> pairs_, pairs_back_;
  std::set<std::string> failures_;
  bool in_vote_ = false;
  std::size_t voted_ = 0;
  int planned_ = 0;
};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint32_t kSeeds = 20;
#else
constexpr std::uint32_t kSeeds = 100;
#endif

Plan SomePlan(Random& random) {
  const int slots = 2 + static_cast<int>(random() % 5);
  Buckets buckets;
  for (int slot = 0; slot < slots; ++slot) {
    if (buckets.empty() || random() % 2 == 0) buckets.emplace_back();
    buckets.back().push_back(slot);
  }
  return MakePlan("p", slots, buckets);
}

// All ranks leave the same step, each after as many tensors as it happens: none gets an error, and
// the same steps meet.
TEST(AbandonedSteps, NobodyHearsOfAStepThatAllHaveLeft) {
  int planned = 0;
  for (std::uint32_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Plan plan = SomePlan(random);
    const int slots = static_cast<int>(plan.slots.size());
    const std::size_t ranks = 2 + seed % 3;
    std::vector<std::vector<Leave>> leaves(ranks);
    for (int step : {12, 30 + static_cast<int>(random() % 3)}) {
      for (auto& own : leaves) own.push_back({step, 1 + static_cast<int>(random() % (slots - 1))});
    }
    StepsSimulation job(plan, leaves, 60, seed);
    job.Run();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(job.errors(static_cast<int>(rank)), 0);
      EXPECT_EQ(job.report(static_cast<int>(rank)).state, "active") << "it is planned again";
    }
    planned += job.planned();
  }
  EXPECT_GT(planned, static_cast<int>(kSeeds) * 60);
}

// Some ranks leave a step that others wait for. All go on together with the next one.
TEST(AbandonedSteps, RanksThatWaitGetAnError) {
  for (std::uint32_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Plan plan = SomePlan(random);
    const int slots = static_cast<int>(plan.slots.size());
    const int ranks = 2 + static_cast<int>(seed % 3);
    std::vector<std::vector<Leave>> leaves(ranks);
    const int leavers = 1 + static_cast<int>(random() % (ranks - 1));
    const int sent = static_cast<int>(1 + random() % (slots - 1));
    for (int rank = 0; rank < leavers; ++rank) leaves[(seed + rank) % ranks].push_back({12, sent});
    StepsSimulation job(plan, leaves, 40, seed);
    job.Run();
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(job.errors(rank), leaves[rank].empty()) << "the others have errors of their own";
      EXPECT_EQ(job.report(rank).state, "active");
    }
    ASSERT_EQ(job.failures().size(), 1u);
    const std::string& failure = *job.failures().begin();
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(failure.find("rank " + std::to_string(rank) + " has left") != std::string::npos,
                !leaves[rank].empty())
          << failure;
    }
  }
}

// Ranks leave steps at any place: before, within and after what they send. Whoever gets an error,
// they go on together.
TEST(AbandonedSteps, LeftAtAnyPlace) {
  int errors = 0;
  for (std::uint32_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Plan plan = SomePlan(random);
    const int slots = static_cast<int>(plan.slots.size());
    std::vector<std::vector<Leave>> leaves(2 + seed % 3);
    for (auto& own : leaves) {
      if (random() % 3 > 0) own.push_back({12, 1 + static_cast<int>(random() % slots)});
    }
    StepsSimulation job(plan, leaves, 40, seed);
    job.Run();
    errors += job.errors(0);
  }
  EXPECT_GT(errors, static_cast<int>(kSeeds) / 5);
}

// An error in the first steps, before the plan is active: what has been sent everywhere is reduced,
// and the warm-up begins again.
TEST(AbandonedSteps, AStepOfTheWarmUpThatAllHaveLeftAlike) {
  for (std::uint32_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Plan plan = SomePlan(random);
    const std::size_t ranks = 2 + seed % 3;
    const Leave leave{1 + static_cast<int>(random() % 3), static_cast<int>(plan.slots.size()) - 1};
    StepsSimulation job(plan, std::vector<std::vector<Leave>>(ranks, {leave}), 30, seed, true);
    job.Run();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(job.errors(static_cast<int>(rank)), 0);
      EXPECT_EQ(job.report(static_cast<int>(rank)).state, "active");
    }
  }
}

}  // namespace abandoned_steps_test
}  // namespace horovod_opt
