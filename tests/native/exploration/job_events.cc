// What happens in a job.
#include <algorithm>
#include <functional>

#include "tests/native/exploration/job.h"

namespace horovod_opt {
namespace exploration {

void Job::Send(int number, int plan, int slot) {
  Rank& rank = ranks_[number];
  Thread& thread = rank.threads[plan];
  const Shape& shape = scenario_.plans[plan];
  if (thread.slots.empty() && thread.iteration == 1) rank.plans->Add(plan, shape);
  auto& slots = thread.slots[thread.iteration];
  slots.resize(shape.slots, Sent::kNot);
  slots[slot] = Sent::kYes;
  const Tensor tensor{plan, slot, thread.iteration};
  Manner manner;
  manner.differs = rank.different.erase({plan, slot}) > 0;
  manner.on_gpu = scenario_.on_gpu.count(number) > 0;
  manner.in_step = !scenario_.leaves.empty() && plan == 0;
  if (rank.left_out.count({plan, slot}) > 0) {
    rank.plans->LeaveOut(plan, slot);
    rank.told.insert({plan, slot});
  }
  const Way way = rank.plans->Arrive(tensor, manner);
  if (rank.closed) {
    if (way != Way::kNegotiated) throw Violation(tensor.Name() + " is planned after Close()");
    return End(number, tensor, Sent::kFailed);
  }
  switch (way) {
    case Way::kNegotiated:
      if (manner.in_step && rank.negotiated.count({plan, slot}) > 0) {
        slots[slot] = Sent::kNot;
        thread.refused = slot;
        return;
      }
      return Negotiate(number, tensor, false);
    case Way::kDeferred:
      rank.deferred.push_back(tensor);
      return;
    case Way::kAbandoned:
      return End(number, tensor, Sent::kFailed);
    case Way::kRefused:
      throw Violation(tensor.Name() + " is refused, as if it was sent twice");
    case Way::kPlanned:
      return;
  }
}

void Job::Refuse(int number, int plan) {
  Thread& thread = ranks_[number].threads[plan];
  const int slot = *std::exchange(thread.refused, {});
  ++thread.tries[slot];
  ranks_[number].plans->Refuse(plan, slot);
}

void Job::Leave(int number) {
  Thread& thread = ranks_[number].threads[0];
  auto& slots = thread.slots[thread.iteration];
  slots.resize(scenario_.plans[0].slots, Sent::kNot);
  // What it has not sent does not come, and nobody waits for the rest.
  std::replace(slots.begin(), slots.end(), Sent::kNot, Sent::kFailed);
  if (std::count(slots.begin(), slots.end(), Sent::kYes) == 0) thread.slots.erase(thread.iteration);
  ++thread.iteration;
  thread.tries.clear();
}

void Job::Disturb(int number) {
  using Disturbance = Scenario::Disturbance;
  const Disturbance& what = scenario_.disturbances[disturbed_++];
  Rank& rank = ranks_[number];
  TouchShared(1);
  switch (what.kind) {
    case Disturbance::kReject:
      return rank.plans->Reject(scenario_.plans[what.plan]);
    case Disturbance::kDiffers:
      rank.different.insert({what.plan, what.slot});
      return;
    case Disturbance::kLeaveOut:
      rank.left_out.insert({what.plan, what.slot});
      return;
    case Disturbance::kRemove:
      return rank.plans->Remove(what.plan, scenario_.plans[what.plan]);
    case Disturbance::kShutdown:
      TouchAll();
      shutdown_ = true;
      return;
    case Disturbance::kDeath:
      rank.dead = true;
      return presence_->Die(number);
  }
}

void Job::Take(int number) {
  Rank& rank = ranks_[number];
  const int bucket_id = queue_.Entry(rank.taken);
  if (--rank.announced[bucket_id] == 0) rank.announced.erase(bucket_id);
  auto bucket = rank.plans->Take(bucket_id);
  CheckBucket(number, bucket);
  ++rank.taken;
  if (!bucket.slots.empty()) rank.work = std::move(bucket);
}

void Job::Reduce(int number) {
  Rank& rank = ranks_[number];
  const auto bucket = *std::exchange(rank.work, {});
  rank.plans->MarkReduced();
  ++planned_;
  for (const auto& tensor : bucket.tensors) {
    if (tensor) End(number, *tensor, Sent::kReduced);
  }
}

// A rank has died. This one tells its tensors, and goes no further.
void Job::Notice(int number) {
  Rank& rank = ranks_[number];
  if (const auto bucket = std::exchange(rank.work, {})) {
    for (const auto& tensor : bucket->tensors) {
      if (tensor) End(number, *tensor, Sent::kFailed);
    }
  }
  Close(number);
}

void Job::CastVote(int number) {
  Rank& rank = ranks_[number];
  rank.voted = true;
  rank.row = rank.plans->Row(number == 0, scenario_.rebuilt && number == 0);
}

// `sent_meanwhile`: a slot of the first plan, whose tensor the framework sends while the background
// thread is about to hand back the first one.
void Job::Apply(int number, std::optional<int> sent_meanwhile) {
  Rank& rank = ranks_[number];
  rank.applied = true;
  std::vector<std::string> rows;
  for (const Rank& peer : ranks_) rows.push_back(peer.row);
  const std::size_t decided = std::hash<std::string>()(RankPlans::Decisions(rows));
  if (decided != rank.decided) rank.history = 31 * rank.history + decided;
  rank.decided = decided;
  rank.deferred.clear();
  const auto refused = rank.plans->Apply(rows, [&](const Tensor& tensor, bool failed) {
    if (const auto slot = std::exchange(sent_meanwhile, {})) Send(number, 0, *slot);
    failed ? End(number, tensor, Sent::kFailed) : Negotiate(number, tensor, true);
  });
  if (!refused.empty())
    throw Violation(refused[0].Name() + " is refused, as if it was sent twice");
  if (Count([](const Rank& peer) { return peer.applied; }) < scenario_.ranks) return;
  for (Rank& peer : ranks_) {
    peer.voted = peer.applied = false;
    peer.row.clear();
  }
}

void Job::Restart(int number) {
  TouchAll();
  Rank& rank = ranks_[number];
  rank.joined = false;
  rank.restarted = true;
  rank.plans->Restart();
}

void Job::Finish(int number) {
  TouchAll();
  ranks_[number].plans->Finish();
  ranks_[number].finished = true;
  if (Count([](const Rank& peer) { return peer.finished; }) < scenario_.ranks) return;
  std::vector<std::string> rows;
  for (const Rank& peer : ranks_) rows.push_back(peer.plans->CompletionRow());
  for (Rank& peer : ranks_) peer.untaken = peer.plans->Untaken(rows);
}

void Job::Close(int number) {
  Rank& rank = ranks_[number];
  rank.closed = true;
  for (const Tensor& tensor : rank.plans->Close()) End(number, tensor, Sent::kFailed);
  for (const auto& [name, iterations] : std::exchange(rank.negotiated, {})) {
    for (int iteration : iterations)
      End(number, {name.first, name.second, iteration}, Sent::kFailed);
  }
  rank.deferred.clear();
}

}  // namespace exploration
}  // namespace horovod_opt
