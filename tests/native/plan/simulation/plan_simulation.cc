#include "tests/native/plan/simulation/plan_simulation.h"

#include <algorithm>
#include <set>

namespace horovod_opt {
namespace {

constexpr int kStepsAtMost = 400000;

}  // namespace

PlanSimulation::PlanSimulation(Program program, std::uint32_t seed)
    : program_(std::move(program)), random_(seed), calls_(kCapacity, 0) {
  const int size = static_cast<int>(program_.iterations[0].size());
  for (int rank = 0; rank < size; ++rank) {
    ranks_.push_back(
        std::make_unique<Rank>(program_.capacity, [this, rank, size](const Work& work) {
          const int bucket_id = work.bucket->id;
          Rank& self = *ranks_[rank];
          ++self.readies[bucket_id];
          EXPECT_LE(self.readies[bucket_id], self.takes[bucket_id] + 1)
              << "announced twice: " << bucket_id;
          if (++calls_[bucket_id] % size == 0) queue_.push_back(bucket_id);
        }));
    Rank& self = *ranks_.back();
    self.threads.resize(program_.threads.size());
    self.added.resize(program_.plans.size());
    self.graph.resize(program_.plans.size());
    for (const Plan& plan : program_.plans) self.arrivals.emplace_back(plan.slots.size(), 0);
    self.readies.resize(kCapacity);
    self.takes.resize(kCapacity);
  }
}

void PlanSimulation::Run() {
  const int size = static_cast<int>(ranks_.size());
  std::vector<int> slow(ranks_.size(), 1);
  for (int step = 0; !Over(); ++step) {
    if (testing::Test::HasFailure()) return;
    if (step == kStepsAtMost) {
      FAIL() << "nothing goes on; epoch " << ranks_[0]->epoch
             << ", plan 0: " << plans(0).Reports()[0].state << ", " << plans(0).Reports()[0].reason;
    }
    if (step % 64 == 0) {
      for (int& pace : slow) pace = Below(4) == 0 ? 20 : 1;
    }
    const int rank = Below(size);
    if (Below(slow[rank]) == 0) Step(rank);
  }
  for (const auto& rank : ranks_) {
    EXPECT_EQ(rank->readies, rank->takes);
    EXPECT_TRUE(rank->negotiated.empty());
    EXPECT_TRUE(rank->plans.Close().empty());
  }
}

void PlanSimulation::Step(int rank) {
  const auto& all = program_.disturbances;
  if (disturbances_ < all.size()) {
    const int wait = program_.disturbed_for / static_cast<int>(all.size());
    const auto& [whom, act] = all[disturbances_];
    if (whom == rank && Below(wait / static_cast<int>(ranks_.size()) + 1) == 0) {
      ++disturbances_;
      act(plans(rank));
    }
  }
  switch (Below(4)) {
    case 0:
      return Background(rank);
    case 1:
      return PlannedPath(rank);
    default:
      return Framework(rank);
  }
}

int PlanSimulation::PlanOf(const Thread& thread, std::size_t index) const {
  const auto& turns = program_.threads[index];
  return turns[thread.executed % turns.size()];
}

void PlanSimulation::Framework(int rank) {
  Rank& self = *ranks_[rank];
  if (self.joined || self.epoch == static_cast<int>(program_.iterations.size())) return;
  const int iterations = program_.iterations[self.epoch][rank];
  const auto done = [&](const Thread& thread) { return thread.executed == iterations; };
  if (std::all_of(self.threads.begin(), self.threads.end(), done)) {
    self.joined = true;
    return self.plans.Join();
  }
  const int index = Below(static_cast<int>(self.threads.size()));
  Thread& thread = self.threads[index];
  if (done(thread)) return;
  const int plan = PlanOf(thread, index);
  const auto& slots = program_.plans[plan].slots;
  if (!self.added[plan]) {
    self.added[plan] = true;
    if (plan != 0 || rank != program_.without_plan) self.plans.Add(Own(rank, plan));
  }
  if (!thread.running) {
    thread.running = true;
    thread.slots.assign(slots.size(), Sent::kNot);
  }
  const int slot = Below(static_cast<int>(slots.size()));
  const auto& after = slots[slot].after;
  if (thread.slots[slot] == Sent::kNot &&
      std::all_of(after.begin(), after.end(),
                  [&](int dependency) { return thread.slots[dependency] == Sent::kReduced; })) {
    thread.slots[slot] = Sent::kYes;
    return Send(rank, plan, slot);
  }
  if (std::count(thread.slots.begin(), thread.slots.end(), Sent::kReduced) ==
      static_cast<int>(slots.size())) {
    thread.running = false;
    ++thread.executed;
    if (program_.retraces == 0 || Below(program_.retraces) != 0) return;
    self.plans.Remove(Own(rank, plan));
    self.added[plan] = false;
    ++self.graph[plan];
  }
}

Plan PlanSimulation::Own(int rank, int plan) const {
  Plan own = program_.plans[plan];
  for (std::size_t slot = 0; slot < own.slots.size(); ++slot) {
    own.slots[slot].key =
        100000 * ranks_[rank]->graph[plan] + Key(rank, plan, static_cast<int>(slot));
  }
  return own;
}

void PlanSimulation::Send(int rank, int plan, int slot) {
  Rank& self = *ranks_[rank];
  const std::uint64_t iteration = ++self.arrivals[plan][slot];
  const Tensor tensor(plan, slot, iteration, self.epoch);
  ArrivalPtr arrival = std::make_unique<Tensor>(tensor);
  const bool differs = !program_.different.empty() && plan == 0 && slot == 0 &&
                       program_.different[rank] == iteration;
  const std::int64_t key = Own(rank, plan).slots[slot].key;
  const Route route = ArriveAt(self.plans, key, arrival, differs ? 8 : 4);
  EXPECT_EQ(arrival == nullptr, route != Route::kNegotiated);
  if (route != Route::kNegotiated) return;
  TakesLane(tensor, route);
  self.negotiated[{plan, slot}] = iteration;
}

// Every rank must come to the same result, however early or late it does.
void PlanSimulation::TakesLane(const Tensor& tensor, Route route) {
  const auto [first, is_new] =
      routes_.insert({{tensor.plan, tensor.epoch, tensor.iteration, tensor.slot}, route});
  EXPECT_EQ(first->second, route) << "plan " << tensor.plan << ", epoch " << tensor.epoch
                                  << ", iteration " << tensor.iteration << ", slot " << tensor.slot;
}

void PlanSimulation::Reduced(int rank, int plan, int slot) {
  Rank& self = *ranks_[rank];
  for (std::size_t index = 0; index < self.threads.size(); ++index) {
    Thread& thread = self.threads[index];
    if (!thread.running || PlanOf(thread, index) != plan) continue;
    EXPECT_EQ(thread.slots[slot], Sent::kYes) << "reduced without having been sent";
    thread.slots[slot] = Sent::kReduced;
    return;
  }
  ADD_FAILURE() << "reduced, and nobody waits for it";
}

void PlanSimulation::PlannedPath(int rank) {
  Rank& self = *ranks_[rank];
  if (self.finished == self.entries_read) {
    if (self.entries_read == queue_.size()) return;
    const std::size_t position = self.entries_read++;
    ++self.takes[queue_[position]];
    self.work = self.plans.Take(queue_[position]);
    return Check(rank, self.work, position);
  }
  // A reduction ends after all ranks have begun it.
  if (std::any_of(ranks_.begin(), ranks_.end(),
                  [&](const auto& peer) { return peer->entries_read < self.entries_read; })) {
    return;
  }
  ++self.finished;
  if (!self.work.IsEmpty()) self.plans.MarkReduced(self.work);
  for (const ArrivalPtr& arrival : self.work.arrivals) {
    if (arrival == nullptr) continue;
    const auto& tensor = static_cast<const Tensor&>(*arrival);
    Reduced(rank, tensor.plan, tensor.slot);
  }
  self.work = {};
}

void PlanSimulation::Check(int rank, const Work& work, std::size_t position) {
  const Rank& self = *ranks_[rank];
  const std::uint64_t iteration = work.IsEmpty() ? 0 : work.iteration;
  const auto what = std::make_tuple(work.bucket->plan->hash, iteration,
                                    work.IsEmpty() ? std::vector<int>() : work.bucket->slots);
  if (position == reduced_.size()) reduced_.push_back(what);
  EXPECT_EQ(reduced_[position], what) << "the ranks reduce different buckets";
  EXPECT_EQ(work.bucket->id, queue_[position]);
  if (work.IsEmpty()) return;
  ASSERT_EQ(work.arrivals.size(), work.bucket->slots.size());
  for (std::size_t i = 0; i < work.arrivals.size(); ++i) {
    if (work.arrivals[i] == nullptr) {
      EXPECT_TRUE(self.joined) << "zeros of a rank that has not joined";
      continue;
    }
    const auto& tensor = static_cast<const Tensor&>(*work.arrivals[i]);
    EXPECT_EQ(program_.plans[tensor.plan].hash, work.bucket->plan->hash);
    EXPECT_EQ(tensor.slot, work.bucket->slots[i]);
    EXPECT_EQ(iterations_.emplace(position, tensor.iteration).first->second, tensor.iteration)
        << "different iterations are reduced together";
    if (program_.retraces == 0) {
      EXPECT_EQ(tensor.iteration, work.iteration);
    }
    EXPECT_EQ(tensor.epoch, self.epoch);
    TakesLane(tensor, Route::kPlanned);
  }
}

void PlanSimulation::Begin(Phase phase) {
  phase_ = phase;
  for (const auto& rank : ranks_) rank->took_part = false;
}

void PlanSimulation::Background(int rank) {
  Rank& self = *ranks_[rank];
  if (phase_ == Phase::kNegotiation) {
    const bool is_requested = std::any_of(ranks_.begin(), ranks_.end(),
                                          [](const auto& peer) { return peer->plans.WantsVote(); });
    // All may join between the vote of a round and its negotiation.
    if (AllJoined() && Below(2) == 0) return Begin(Phase::kRestart);
    if (Below(is_requested ? 4 : 50) == 0) return Begin(Phase::kRows);
    return Negotiate();
  }
  if (self.took_part) return;
  self.took_part = true;
  if (phase_ == Phase::kRows) {
    self.row = self.plans.VoteRow(rank == 0, program_.rebuilt && rank == 0,
                                  PlanTable::Clock::now() + program_.idle);
  } else if (phase_ == Phase::kDecisions) {
    std::vector<std::string> rows;
    for (const auto& peer : ranks_) rows.push_back(peer->row);
    const auto outcome = self.plans.Apply(ByRank(rows));
    EXPECT_TRUE(outcome.to_refuse.empty());
    for (const ArrivalPtr& arrival : outcome.to_negotiate) {
      const auto& tensor = static_cast<const Tensor&>(*arrival);
      TakesLane(tensor, Route::kNegotiated);
      self.negotiated[{tensor.plan, tensor.slot}] = tensor.iteration;
    }
    if (rank == 0) {
      rejected_.insert(rejected_.end(), outcome.rejections.begin(), outcome.rejections.end());
    }
  } else {
    self.plans.Restart();
    self.joined = false;
    ++self.epoch;
    for (Thread& thread : self.threads) thread.executed = 0;
    for (auto& slots : self.arrivals) std::fill(slots.begin(), slots.end(), 0);
  }
  if (TookPart()) Begin(phase_ == Phase::kRows ? Phase::kDecisions : Phase::kNegotiation);
}

// What all ranks have asked for that have not joined is reduced.
void PlanSimulation::Negotiate() {
  std::map<std::pair<int, int>, std::vector<int>> asking;
  int present = 0;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank]->joined) continue;
    ++present;
    for (const auto& request : ranks_[rank]->negotiated) {
      asking[request.first].push_back(static_cast<int>(rank));
    }
  }
  for (const auto& [tensor, who] : asking) {
    if (static_cast<int>(who.size()) < present) continue;
    for (int rank : who) {
      EXPECT_EQ(ranks_[rank]->negotiated[tensor], ranks_[who[0]]->negotiated[tensor])
          << "different iterations are reduced together";
    }
    for (int rank : who) {
      ranks_[rank]->negotiated.erase(tensor);
      Reduced(rank, tensor.first, tensor.second);
    }
  }
}

bool PlanSimulation::TookPart() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const auto& peer) { return peer->took_part; });
}

bool PlanSimulation::AllJoined() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& peer) { return peer->joined; });
}

bool PlanSimulation::Over() const {
  const int epochs = static_cast<int>(program_.iterations.size());
  return phase_ == Phase::kNegotiation &&
         std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& peer) {
           return peer->epoch == epochs && peer->finished == queue_.size();
         });
}

int PlanSimulation::PlannedIterations(int plan, int epoch) const {
  std::set<std::uint64_t> iterations;
  for (const auto& [tensor, route] : routes_) {
    if (std::get<0>(tensor) == plan && std::get<1>(tensor) == epoch && route == Route::kPlanned) {
      iterations.insert(std::get<2>(tensor));
    }
  }
  return static_cast<int>(iterations.size());
}

int PlanSimulation::BucketIds(int plan) const {
  std::set<int> bucket_ids;
  for (std::size_t position = 0; position < reduced_.size(); ++position) {
    if (std::get<0>(reduced_[position]) != program_.plans[plan].hash) continue;
    bucket_ids.insert(queue_[position]);
  }
  return static_cast<int>(bucket_ids.size());
}

}  // namespace horovod_opt
