// Hierarchical allreduce: how the buckets of several groups of ranks are reduced, without agreement
// on an order. A group whose ranks have all announced a bucket begins at once, whatever the other
// groups do:
//
// 1. Its ranks add up the bucket in their memory, a part on each (NodeCollectives::ReduceParts).
// 2. Each rank exchanges its part with the ranks of the same number in the other groups. That takes
//    as long as the slowest group; other buckets are begun and end meanwhile, in any order.
// 3. The last rank of the group whose allreduce has ended says so in the group's queue, and the
//    ranks show each other their parts (NodeCollectives::GatherParts).
//
// A group of one rank has the second step only, which the framework's thread begins that completes
// the bucket.
//
// Other calls than allreduces (internode_calls.cc) go that way, too, in two steps: by an
// allreduce of a word for each rank all of them come to know who gives how many rows, and that all
// have begun the same call. Only then do the rows go round a ring.
//
// Why nobody waits forever. The first and the third step are calls in the memory of the group,
// which all of its ranks make in the order of its queue, without waiting for anything else in
// between. The second step: nonblocking_allreduce.h.
//
// Until a bucket ends, the plan table has its arrivals: so stalls are reported, and what the other
// groups take back because the plan has ended is given back.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/network/block_ring.h"
#include "horovod_opt/csrc/core/network/progress_engine.h"
#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "horovod_opt/csrc/core/plan/plan.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/reduction/network_data.h"
#include "horovod_opt/csrc/core/reduction/node_collectives.h"
#include "horovod_opt/csrc/core/reduction/planned_call.h"
#include "horovod_opt/csrc/core/shared_memory/ready_queue.h"

namespace horovod_opt {

class InternodeBuckets {
 public:
  using Clock = std::chrono::steady_clock;

  // How a bucket ends that is not given back.
  enum class Outcome {
    kReduced,
    kIncomplete,  // a call: a rank that has joined is missing in it
    kDiffers,     // the members mean different buckets
  };
  struct Binding {
    // The first step begins. Any thread.
    std::function<void(const Work& work)> begins;
    // By the progress engine's thread or of the planned path.
    std::function<void(Work work, Outcome outcome, Clock::time_point start)> ended;
    // These are negotiated instead. By the same threads.
    std::function<void(std::vector<ArrivalPtr> arrivals)> given_back;
  };

  // `queue`: of the group, in which the ends of allreduces are entries, too. `everybody`: the ranks
  // of all `groups` groups, one group after the other; this rank is the `rank`-th of the
  // `group`-th, as in `node`. To be deleted after `engine` has been closed.
  InternodeBuckets(PlanTable& plans, ReadyQueue& queue, NodeCollectives& node,
                   ProgressEngine& engine, std::vector<int> everybody, int rank, int group,
                   int groups, Binding binding,
                   NonblockingAllreduce::Sizes sizes = NonblockingAllreduce::Sizes());

  // The bucket is complete on this rank. Any thread, under locks of PlanTable.
  void Announce(const Work& work);

  // --- the thread of the planned path, in the order of the queue ---
  // An entry for an end, and not for a bucket that all ranks of the group have announced.
  static bool IsEnd(int entry) { return entry >= ReadyQueue::kIds; }
  // These return false if `stop` was set while they waited. They throw std::logic_error if the
  // ranks of the group mean different buckets.
  bool Begin(int bucket_id, const std::atomic<bool>& stop, WaitCounts& waits);
  bool End(int entry, const std::atomic<bool>& stop, WaitCounts& waits);
  // After an exception: what the bucket of the entry is, and the bucket.
  std::string Describe(int entry) const;
  Work Drop(int entry);

  // The buckets that have begun and not ended, and who the peers are. Any thread.
  void DumpState(StatePage& page) const;

  int ranks() const { return ranks_; }  // of the group

 private:
  static int BucketOf(int entry) { return entry % ReadyQueue::kIds; }
  // A bucket on its way.
  struct Request {
    explicit Request(const Work& work);

    const std::shared_ptr<const PlannedBucket> bucket;
    const std::uint64_t tag;
    const Clock::time_point start;
    // Of an allreduce; of a reducescatter if the group has several ranks.
    std::shared_ptr<const BucketReduction> reduction;
    std::vector<std::int64_t> ends;  // of the parts
    // Of this rank's part: the group's sums, then the result. Of an allgather: the blocks of the
    // ranks with this number. Of a group of one rank: what is scaled before it is scattered.
    BufferPool::Buffer part;
    // Of the tensors, and of a result that is allocated on the way: the transport may use it until
    // the messages are over, also if the bucket fails and its tensors are given back before.
    std::vector<std::shared_ptr<void>> memory;
    std::shared_ptr<char> result;
    // Of a call: its one tensor, which the plan table has until it ends; nullptr: this rank has
    // joined. And how many rows each of `everybody` gives, and one; 0: it has joined.
    Arrival* tensor = nullptr;
    std::shared_ptr<Words> rows;
    // By rank of the job, in bytes: where its rows begin in what is gathered or scattered, and the
    // end.
    std::vector<std::int64_t> begins;

    const Slot& slot() const { return bucket->first(); }
    const char* data() const { return static_cast<const char*>(tensor->segment.in); }
    std::int64_t row_bytes() const { return RowBytes(slot()); }
  };

  // Keeps the request as long as it is used.
  static BucketReductionPtr ReductionIn(const std::shared_ptr<Request>& request) {
    return {request, request->reduction.get()};
  }
  BufferPool::Buffer TakeBuffer(std::int64_t bytes);
  void Send(const Work& work);
  void SendPart(int bucket_id, const std::shared_ptr<Request>& request);
  void TakeBack(const Work& work);
  // `done`: what follows on all ranks that mean the same.
  void Start(int bucket_id, std::uint64_t tag, AllreduceData data, std::function<void()> done);
  void AnnounceEnd(int bucket_id);
  std::shared_ptr<Request> NewRequest(const Work& work);
  void Register(const Work& work, const std::shared_ptr<Request>& request);
  std::shared_ptr<Request> EndRequest(int bucket_id);
  void Finish(int bucket_id, Outcome outcome = Outcome::kReduced);

  // --- calls: internode_calls.cc ---
  std::shared_ptr<Request> NewCall(const Work& work);
  void PrepareReduction(Request& request) const;
  bool BeginCall(const Work& work, const std::atomic<bool>& stop, WaitCounts& waits);
  void SendCall(int bucket_id, const std::shared_ptr<Request>& request);
  // All ranks have begun it, and `request` has the rows of all.
  void GoRound(int bucket_id, const std::shared_ptr<Request>& request);
  void Gather(int bucket_id, const std::shared_ptr<Request>& request);
  void ScatterSums(int bucket_id, const std::shared_ptr<Request>& request);
  void Broadcast(int bucket_id, const std::shared_ptr<Request>& request);
  void BeginRing(BlockRing::Kind kind, int bucket_id, BlockRing::Memory memory,
                 const std::vector<BlockRing::Block>& blocks, const Arithmetic& arithmetic,
                 std::function<void()> on_end);
  std::vector<BlockRing::Block> BlocksOf(const Request& request, bool in_all) const;
  bool EndCall(Request& request, const std::atomic<bool>& stop, WaitCounts& waits);
  bool EndGather(Request& request, const std::atomic<bool>& stop, WaitCounts& waits);
  char* BroadcastMemory(const Request& request) const;
  static std::int64_t AllRows(const Request& request);
  static std::int64_t BytesOfRank(const Request& request, int rank) {
    return request.begins[rank + 1] - request.begins[rank];
  }
  int PlaceAt(int group, int number) const { return group * ranks_ + number; }
  int RankAt(int group, int number) const { return everybody_[PlaceAt(group, number)]; }

  PlanTable& plans_;
  ReadyQueue& queue_;
  NodeCollectives& node_;
  ProgressEngine& engine_;
  const std::vector<int> everybody_, places_;  // and by rank of the job, where it is among them
  const int rank_, ranks_, group_, groups_;
  const Binding binding_;
  const NonblockingAllreduce::Sizes sizes_;
  mutable std::mutex mutex_;                          // protects what follows
  std::map<int, std::shared_ptr<Request>> requests_;  // by bucket ID
  BufferPool buffers_{0};
};

}  // namespace horovod_opt
