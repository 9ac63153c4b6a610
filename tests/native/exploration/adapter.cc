#include "tests/native/exploration/adapter.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/native/exploration/search.h"
#include "tests/native/plan/sample_plans.h"

namespace horovod_opt {
namespace exploration {
namespace {

constexpr int kBytes = 4;

struct SentTensor : Arrival {
  explicit SentTensor(const Tensor& tensor_of) : tensor(tensor_of) {}
  std::string Name() const override { return tensor.Name(); }
  const Tensor tensor;
};

Tensor TensorOf(const Arrival& arrival) { return static_cast<const SentTensor&>(arrival).tensor; }

std::vector<Tensor> TensorsOf(const std::vector<ArrivalPtr>& arrivals) {
  std::vector<Tensor> tensors;
  for (const ArrivalPtr& arrival : arrivals) tensors.push_back(TensorOf(*arrival));
  return tensors;
}

}  // namespace

std::string Tensor::Name() const {
  return std::string(1, static_cast<char>('p' + plan)) + std::to_string(slot) + "#" +
         std::to_string(iteration);
}

RankPlans::RankPlans(int capacity, std::function<void(int bucket_id)> ready)
    : table_(
          capacity, [ready = std::move(ready)](const Work& work) { ready(work.bucket->id); },
          [] {}) {}

void RankPlans::Add(int plan, const Shape& shape) {
  table_.Add(MakePlan(shape.hash, shape.slots, shape.buckets, Key(plan, 0)));
}

// So many others go, too, that its keys do, and that the ranks vote on what is forgotten.
void RankPlans::Remove(int plan, const Shape& shape) {
  table_.Remove(MakePlan(shape.hash, shape.slots, shape.buckets, Key(plan, 0)));
  constexpr int kOthers = 64;
  const auto other = [](int number) { return MakePlan("gone", 1, {{0}}, 1000 + number); };
  for (int number = 0; number < kOthers; ++number) table_.Add(other(number));
  for (int number = 0; number < kOthers; ++number) table_.Remove(other(number));
}

Way RankPlans::Arrive(const Tensor& tensor, const Manner& manner) {
  ArrivalPtr arrival = std::make_unique<SentTensor>(tensor);
  if (manner.in_step) {
    arrival->step = tensor.iteration;
    arrival->in_turn = true;
  }
  Reduction reduction;
  if (manner.on_gpu) reduction.device = 0;
  arrival->bytes = manner.differs ? 2 * kBytes : kBytes;
  arrival->reduction = reduction;
  switch (table_.Arrive(Key(tensor.plan, tensor.slot), arrival)) {
    case Route::kNegotiated:
      return Way::kNegotiated;
    case Route::kPlanned:
      return Way::kPlanned;
    case Route::kDeferred:
      return Way::kDeferred;
    case Route::kAbandoned:
      return Way::kAbandoned;
    case Route::kOverlaps:
      break;
  }
  return Way::kRefused;
}

RankPlans::Bucket RankPlans::Take(int bucket_id) {
  work_ = table_.Take(bucket_id);
  Bucket bucket;
  if (work_.bucket == nullptr) return bucket;
  bucket.plan = work_.bucket->plan->hash;
  if (work_.IsEmpty()) return bucket;
  bucket.slots = work_.bucket->slots;
  bucket.iteration = work_.iteration;
  for (const ArrivalPtr& arrival : work_.arrivals) {
    bucket.tensors.emplace_back();
    if (arrival != nullptr) bucket.tensors.back() = TensorOf(*arrival);
  }
  for (int slot : bucket.slots) {
    bucket.on_gpu.push_back(work_.bucket->plan->slots[slot].reduction.OnGpu());
  }
  return bucket;
}

void RankPlans::MarkReduced() {
  table_.MarkReduced(work_);
  work_ = {};
}

std::string RankPlans::Row(bool first, bool rebuilt) {
  std::vector<Vote> votes = FromRow(table_.VoteRow(first, rebuilt));
  for (Vote& vote : votes) {
    vote.idle_ms = 0;
    // Not when they have arrived, which differs from one replay to the next.
    for (std::size_t slot = 0; slot < vote.times.size(); ++slot)
      vote.times[slot] = 1000 * static_cast<std::int64_t>(vote.times.size() - slot);
  }
  return ToRow(votes);
}

std::vector<Tensor> RankPlans::Apply(const std::vector<std::string>& rows,
                                     const HandBack& hand_back) {
  const auto outcome = table_.Apply(table_.DecideBy(ByRank(rows)), [&](ArrivalPtr arrival) {
    hand_back(TensorOf(*arrival), !arrival->failure.empty());
  });
  return TensorsOf(outcome.to_refuse);
}

std::string RankPlans::Decisions(const std::vector<std::string>& rows) {
  std::string text;
  const auto add = [&](auto number) { text += std::to_string(number) + " "; };
  for (const Decision& decision : Decide(ByRank(rows))) {
    text += decision.hash + ":";
    add(static_cast<int>(decision.kind));
    add(decision.any_has_left);
    if (decision.kind == Decision::kWait) continue;
    add(decision.from_iteration);
    add(decision.fails_step);
    for (int slot : decision.left_out) add(slot);
    for (const auto* counts : {&decision.everywhere, &decision.anywhere}) {
      text += ";";
      for (std::uint64_t count : *counts) add(count);
    }
  }
  return text;
}

std::vector<int> RankPlans::Untaken(const std::vector<std::string>& rows) const {
  return table_.UntakenBuckets(ByRank(rows));
}

std::vector<Tensor> RankPlans::Close() { return TensorsOf(table_.Close()); }

std::vector<std::uint64_t> RankPlans::LastIterations() {
  std::vector<std::uint64_t> iterations;
  for (const Vote& vote : FromRow(table_.VoteRow(false, false)))
    iterations.push_back(vote.last_iteration);
  return iterations;
}

std::vector<std::string> RankPlans::States() const {
  std::vector<std::string> states;
  for (const auto& plan : table_.Reports()) states.push_back(plan.state);
  return states;
}

std::string RankPlans::State() const {
  std::string state = table_.WantsVote() ? "wants " : "";
  for (const auto& plan : table_.Reports()) {
    state += plan.hash + ":" + plan.state + "," + std::to_string(plan.iterations) + "," +
             std::to_string(plan.buckets.size()) + " ";
  }
  for (const auto& tensor : table_.PendingTensors()) state += tensor.name + " ";
  return state + table_.CompletionRow();
}

GroupQueue::GroupQueue() : memory_(std::aligned_alloc(64, (ReadyQueue::Bytes() + 63) / 64 * 64)) {
  std::memset(memory_.get(), 0, ReadyQueue::Bytes());
  queue_ = static_cast<ReadyQueue*>(memory_.get());
}

bool GroupQueue::Ready(int bucket_id, int ranks) {
  const std::uint64_t size = queue_->Size();
  queue_->Ready(bucket_id, ranks);
  return queue_->Size() > size;
}

int GroupQueue::Entry(int position) const {
  int bucket_id = 0;
  const std::atomic<bool> stop{true};
  WaitCounts counts;
  if (!queue_->Next(static_cast<std::uint64_t>(position), bucket_id, stop, counts))
    throw Violation("the ready queue has no entry " + std::to_string(position));
  return bucket_id;
}

}  // namespace exploration
}  // namespace horovod_opt
