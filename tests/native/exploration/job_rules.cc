// What must be true of a job, whatever happens.
#include <algorithm>
#include <string>

#include "tests/native/exploration/job.h"

namespace horovod_opt {
namespace exploration {
namespace {

std::string On(int rank) { return " on rank " + std::to_string(rank); }

}  // namespace

// A bucket is announced once, and taken before it is announced again; nothing after Close().
void Job::Announced(int number, int bucket_id) {
  Rank& rank = ranks_[number];
  const std::string bucket = "bucket " + std::to_string(bucket_id);
  if (rank.closed) throw Violation(bucket + " is announced after Close()" + On(number));
  if (++rank.announced[bucket_id] > 1)
    throw Violation(bucket + " is announced again before it was taken" + On(number));
  TouchShared(2 + bucket_id);
  if (queue_.Ready(bucket_id, scenario_.ranks)) TouchShared(0);
}

// At one place of the queue all ranks find one bucket, of one iteration, on devices of one kind.
void Job::CheckBucket(int number, const RankPlans::Bucket& bucket) {
  const int position = ranks_[number].taken;
  const auto what = std::make_tuple(bucket.plan, bucket.iteration, bucket.slots, bucket.on_gpu);
  const auto [first, is_first] = found_.emplace(position, what);
  if (first->second != what) {
    const auto text = [](const auto& found) {
      return std::get<0>(found) + ", iteration " + std::to_string(std::get<1>(found)) + ", " +
             std::to_string(std::get<2>(found).size()) + " tensors";
    };
    throw Violation("entry " + std::to_string(position) + " is (" + text(what) + ")" + On(number) +
                    " and (" + text(first->second) + ") on another");
  }
  for (std::size_t i = 0; i < bucket.tensors.size(); ++i) {
    if (!bucket.tensors[i]) {
      if (!ranks_[number].joined) throw Violation("zeros instead of a tensor" + On(number));
      continue;
    }
    const Tensor& tensor = *bucket.tensors[i];
    const int iteration = iterations_.emplace(position, tensor.iteration).first->second;
    if (iteration != tensor.iteration || tensor.slot != bucket.slots[i]) {
      throw Violation(tensor.Name() + On(number) + " meets tensors of iteration " +
                      std::to_string(iteration));
    }
    TakesLane(tensor, true);
  }
}

// A tensor of one iteration takes the same path on all ranks.
void Job::TakesLane(const Tensor& tensor, bool planned) {
  const auto [first, is_first] =
      lanes_.emplace(std::make_tuple(tensor.plan, tensor.slot, tensor.iteration), planned);
  if (first->second != planned)
    throw Violation(tensor.Name() + " is planned on one rank and negotiated on another");
}

void Job::Negotiate(int number, const Tensor& tensor, bool handed_back) {
  const std::pair<int, int> name{tensor.plan, tensor.slot};
  auto& iterations = ranks_[number].negotiated[name];
  if (!iterations.empty() && !(handed_back && !scenario_.leaves.empty()))
    throw Violation(tensor.Name() + " has a duplicate name" + On(number));
  iterations.push_back(tensor.iteration);
  TryNegotiation(name);
}

// As upstream: once all ranks have it that have not joined, and until all shut down.
void Job::TryNegotiation(const std::pair<int, int>& name) {
  if (Count([](const Rank& rank) { return rank.finished; }) > 0) return;
  TouchShared(16 + 8 * name.first + name.second);
  std::vector<int> here;
  for (int rank = 0; rank < scenario_.ranks; ++rank) {
    if (ranks_[rank].negotiated.count(name) > 0) here.push_back(rank);
  }
  const int absent = Count([](const Rank& rank) { return rank.joined; });
  if (here.empty() || static_cast<int>(here.size()) + absent < scenario_.ranks) return;
  const Tensor tensor{name.first, name.second, ranks_[here[0]].negotiated.at(name).front()};
  TakesLane(tensor, false);
  for (int rank : here) {
    Touch(rank);
    auto& iterations = ranks_[rank].negotiated.at(name);
    const int iteration = iterations.front();
    iterations.erase(iterations.begin());
    if (iterations.empty()) ranks_[rank].negotiated.erase(name);
    if (iteration != tensor.iteration) {
      throw Violation(tensor.Name() + On(here[0]) + " meets iteration " +
                      std::to_string(iteration) + On(rank));
    }
    End(rank, tensor, Sent::kReduced);
  }
  TryNegotiation(name);
}

// Each tensor that was sent ends once. An iteration is over when all of its tensors have ended.
void Job::End(int number, const Tensor& tensor, Sent how) {
  Thread& thread = ranks_[number].threads[tensor.plan];
  const auto known = thread.slots.find(tensor.iteration);
  if (known == thread.slots.end() || known->second[tensor.slot] != Sent::kYes)
    throw Violation(tensor.Name() + " ends twice" + On(number));
  auto& slots = known->second;
  slots[tensor.slot] = how;
  if (how == Sent::kReduced) ++sums_[{tensor.plan, tensor.slot, tensor.iteration}];
  const bool is_current = tensor.iteration == thread.iteration;
  // A step that has failed sends no more: its rank gets the error.
  const bool failed = !scenario_.leaves.empty() &&
                      std::count(slots.begin(), slots.end(), Sent::kFailed) > 0 && is_current;
  if (std::count(slots.begin(), slots.end(), Sent::kYes) > 0) return;
  if (std::count(slots.begin(), slots.end(), Sent::kNot) > 0 && !failed) return;
  thread.slots.erase(known);
  if (!is_current) return;
  ++thread.iteration;
  thread.tries.clear();
}

// Of all that has been reduced, on every rank that has not died.
void Job::CheckTogether() const {
  const bool any_dead = Count([](const Rank& rank) { return rank.dead; }) > 0;
  if (any_dead || !scenario_.joins.empty()) return;
  for (const auto& [name, number] : sums_) {
    if (number == scenario_.ranks) continue;
    throw Violation(Tensor{std::get<0>(name), std::get<1>(name), std::get<2>(name)}.Name() +
                    " is reduced on " + std::to_string(number) + " ranks alone");
  }
}

void Job::CheckEnd() {
  std::vector<std::uint64_t> counted;
  for (int number = 0; number < scenario_.ranks; ++number) {
    Rank& rank = ranks_[number];
    if (rank.dead) continue;
    for (const Thread& thread : rank.threads) {
      for (const auto& [iteration, slots] : thread.slots) {
        if (std::count(slots.begin(), slots.end(), Sent::kYes) > 0)
          throw Violation("nothing goes on, and a tensor waits" + On(number));
      }
      if (!shutdown_ && !rank.closed && !rank.restarted && thread.iteration <= Limit(number))
        throw Violation("nothing goes on, and the program is not over" + On(number));
    }
    if (!rank.closed && rank.taken < queue_.Size())
      throw Violation("an entry of the queue is left" + On(number));
    if (!rank.closed && !rank.announced.empty() && presence_ == nullptr)
      throw Violation("a bucket is announced and never taken" + On(number));
    for (const std::string& state : rank.plans->States()) {
      if (scenario_.ends_active && state != "active")
        throw Violation("nothing goes on, and a plan is " + state + On(number));
    }
    if (!rank.closed && scenario_.joins.empty() && presence_ == nullptr) {
      const auto iterations = rank.plans->LastIterations();
      if (number == 0) counted = iterations;
      if (iterations != counted)
        throw Violation("it counts other iterations than rank 0" + On(number));
    }
    if (!rank.closed && !rank.plans->Close().empty())
      throw Violation("a tensor is left" + On(number));
  }
  CheckTogether();
}

}  // namespace exploration
}  // namespace horovod_opt
