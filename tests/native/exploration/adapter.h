// Adapter: all that the exploration knows of the product. The plans of one rank, and the queue of
// its group.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"

namespace horovod_opt {
namespace exploration {

// Of a plan, as the program counts.
struct Tensor {
  int plan = 0, slot = 0, iteration = 0;
  std::string Name() const;
  bool operator==(const Tensor& other) const {
    return plan == other.plan && slot == other.slot && iteration == other.iteration;
  }
};

struct Shape {
  std::string hash;
  int slots = 1;
  std::vector<std::vector<int>> buckets;
};

// How a tensor is sent.
struct Manner {
  bool differs = false;  // from the planned one
  bool on_gpu = false;
  bool in_step = false;  // an iteration is a step, one after the other
};

enum class Way { kNegotiated, kPlanned, kDeferred, kAbandoned, kRefused };

class RankPlans {
 public:
  RankPlans(int capacity, std::function<void(int bucket_id)> ready);

  void Add(int plan, const Shape& shape);
  void Remove(int plan, const Shape& shape);
  void Reject(const Shape& shape) { table_.Reject(shape.hash, "why not"); }
  void LeaveOut(int plan, int slot) { table_.LeaveOut(Key(plan, slot), "it is sparse"); }
  Way Arrive(const Tensor& tensor, const Manner& manner);
  void Refuse(int plan, int slot) { table_.Refuse(Key(plan, slot)); }

  struct Bucket {
    std::string plan;
    std::uint64_t iteration = 0;
    std::vector<int> slots;                      // none: it was taken back everywhere
    std::vector<std::optional<Tensor>> tensors;  // none: zeros
    std::vector<bool> on_gpu;                    // as the plan says, by tensor
  };
  Bucket Take(int bucket_id);
  void MarkReduced();  // what was taken last

  bool WantsVote() const { return table_.WantsVote(); }
  // `rebuilt`: from now on, the first time that this rank knows when tensors arrive, which is the
  // other way round.
  std::string Row(bool first, bool rebuilt);
  // `hand_back`: what is negotiated, or fails, with no lock held. Returns what is refused.
  using HandBack = std::function<void(const Tensor& tensor, bool failed)>;
  std::vector<Tensor> Apply(const std::vector<std::string>& rows, const HandBack& hand_back);
  // What all ranks decide, as far as it changes anything.
  static std::string Decisions(const std::vector<std::string>& rows);
  void Join() { table_.Join(); }
  void Restart() { table_.Restart(); }

  void Finish() { table_.Finish(); }
  std::string CompletionRow() const { return table_.CompletionRow(); }
  std::vector<int> Untaken(const std::vector<std::string>& rows) const;
  bool AnyUntaken(const std::vector<int>& bucket_ids) const {
    return table_.AnyUntaken(bucket_ids);
  }
  std::vector<Tensor> Close();

  // By plan: the last iteration, as it counts them. Before Close(); nothing arrives after it.
  std::vector<std::uint64_t> LastIterations();
  // By plan.
  std::vector<std::string> States() const;
  // Of everything that does not follow from the rows of the last votes.
  std::string State() const;

 private:
  static std::int64_t Key(int plan, int slot) { return 1 + 100 * plan + slot; }

  PlanTable table_;
  Work work_;
};

// The real ready queue, of which nobody waits for an entry.
class GroupQueue {
 public:
  GroupQueue();

  // Returns whether it has one more entry.
  bool Ready(int bucket_id, int ranks);
  int Size() const { return static_cast<int>(queue_->Size()); }
  int Entry(int position) const;  // below Size()

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  ReadyQueue* queue_;
};

}  // namespace exploration
}  // namespace horovod_opt
