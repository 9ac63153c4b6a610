#include "horovod_opt/csrc/core/reduction/internode_buckets.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "horovod_opt/csrc/core/reduction/gpu_data_wait.h"
#include "horovod_opt/csrc/core/reduction/network_data.h"
#include "horovod_opt/csrc/core/reduction/reduce_scatter.h"

namespace horovod_opt {
namespace {

std::vector<int> PlacesOf(const std::vector<int>& everybody) {
  std::vector<int> places(everybody.size());
  for (std::size_t place = 0; place < everybody.size(); ++place) {
    places[static_cast<std::size_t>(everybody[place])] = static_cast<int>(place);
  }
  return places;
}

}  // namespace

InternodeBuckets::InternodeBuckets(PlanTable& plans, ReadyQueue& queue, NodeCollectives& node,
                                   ProgressEngine& engine, std::vector<int> everybody, int rank,
                                   int group, int groups, Binding binding,
                                   NonblockingAllreduce::Sizes sizes)
    : plans_(plans),
      queue_(queue),
      node_(node),
      engine_(engine),
      everybody_(std::move(everybody)),
      places_(PlacesOf(everybody_)),
      rank_(rank),
      ranks_(static_cast<int>(everybody_.size()) / groups),
      group_(group),
      groups_(groups),
      binding_(std::move(binding)),
      sizes_(sizes) {}

InternodeBuckets::Request::Request(const Work& work)
    : bucket(work.bucket),
      tag(work.Tag()),
      start(Clock::now()),
      reduction(work.reduction),
      tensor(bucket->IsCall() ? work.arrivals[0].get() : nullptr) {
  for (const ArrivalPtr& arrival : work.arrivals) {
    if (arrival != nullptr) memory.push_back(arrival->Memory());
  }
}

void InternodeBuckets::Announce(const Work& work) {
  const auto is_ready = [](const ArrivalPtr& arrival) {
    return arrival == nullptr || arrival->HasData();
  };
  if (ranks_ == 1) {
    try {
      if (std::all_of(work.arrivals.begin(), work.arrivals.end(), is_ready)) {
        return Send(work);
      }
    } catch (const std::exception&) {
      // Begin() tries again, and fails where errors are told to all ranks.
    }
  }
  queue_.Ready(work.bucket->id, ranks_);
}

bool InternodeBuckets::Begin(int bucket_id, const std::atomic<bool>& stop, WaitCounts& waits) {
  const Work& work = plans_.Look(bucket_id);
  if (!AwaitData(work.arrivals, stop)) return false;
  if (ranks_ == 1 || work.IsEmpty()) {
    Send(work);
    return true;
  }
  if (work.bucket->IsCall()) return BeginCall(work, stop, waits);
  const auto request = NewRequest(work);
  request->part = TakeBuffer(BytesOfPart(request->ends, rank_));
  if (!node_.ReduceParts(*request->reduction, request->ends, request->part.data.get(), request->tag,
                         stop, waits)) {
    return false;
  }
  SendPart(bucket_id, request);
  return true;
}

bool InternodeBuckets::End(int entry, const std::atomic<bool>& stop, WaitCounts& waits) {
  const int bucket_id = BucketOf(entry);
  std::shared_ptr<Request> request;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    request = requests_.at(bucket_id);
  }
  if (request->bucket->IsCall()) {
    if (!EndCall(*request, stop, waits)) return false;
  } else if (!node_.GatherParts(*request->reduction, request->ends, request->part.data.get(),
                                request->tag, stop, waits)) {
    return false;
  }
  Finish(bucket_id);
  return true;
}

std::string InternodeBuckets::Describe(int entry) const {
  return plans_.Look(BucketOf(entry)).Describe();
}

Work InternodeBuckets::Drop(int entry) { return plans_.Take(BucketOf(entry)); }

void InternodeBuckets::Send(const Work& work) {
  const int bucket_id = work.bucket->id;
  if (work.IsEmpty()) return TakeBack(work);
  if (work.bucket->IsCall()) return SendCall(bucket_id, NewCall(work));
  const auto request = NewRequest(work);
  Start(bucket_id, request->tag, WholeBucket(ReductionIn(request)),
        [this, bucket_id] { AnnounceEnd(bucket_id); });
}

void InternodeBuckets::SendPart(int bucket_id, const std::shared_ptr<Request>& request) {
  char* const part = request->part.data.get();
  Start(bucket_id, request->tag,
        PartOfBucket(ReductionIn(request), part, BytesOfPart(request->ends, rank_)),
        [this, bucket_id] { AnnounceEnd(bucket_id); });
}

void InternodeBuckets::Start(int bucket_id, std::uint64_t tag, AllreduceData data,
                             std::function<void()> done) {
  const auto on_end = [this, bucket_id,
                       done = std::move(done)](NonblockingAllreduce::Outcome outcome) {
    switch (outcome) {
      case NonblockingAllreduce::Outcome::kDone:
        return done();
      case NonblockingAllreduce::Outcome::kDiffers:
        return Finish(bucket_id, Outcome::kDiffers);
      case NonblockingAllreduce::Outcome::kTakenBack:
        EndRequest(bucket_id);
        binding_.given_back(plans_.GiveBack(bucket_id));
        return plans_.HandedBack(bucket_id);
    }
  };
  engine_.Begin(std::make_unique<NonblockingAllreduce>(groups_, group_,
                                                       bucket_id * NonblockingAllreduce::kChannels,
                                                       tag, std::move(data), on_end, sizes_));
}

void InternodeBuckets::TakeBack(const Work& work) {
  const int bucket_id = work.bucket->id;
  const std::int64_t bytes = work.bucket->IsCall()
                                 ? everybody_.size() * sizeof(Words::value_type)
                                 : BytesOfPart(EqualParts(work.bucket->bytes, ranks_), rank_);
  engine_.Begin(std::make_unique<NonblockingAllreduce>(
      groups_, group_, bucket_id * NonblockingAllreduce::kChannels, bytes,
      [this, bucket_id](NonblockingAllreduce::Outcome) { plans_.Take(bucket_id); }, sizes_));
}

void InternodeBuckets::AnnounceEnd(int bucket_id) {
  if (ranks_ == 1) return Finish(bucket_id);
  queue_.Ready(ReadyQueue::kIds + bucket_id, ranks_);
}

void InternodeBuckets::Finish(int bucket_id, Outcome outcome) {
  const Clock::time_point start = EndRequest(bucket_id)->start;
  binding_.ended(plans_.Take(bucket_id), outcome, start);
}

std::shared_ptr<InternodeBuckets::Request> InternodeBuckets::NewRequest(const Work& work) {
  const auto request = std::make_shared<Request>(work);
  if (request->reduction == nullptr) throw std::logic_error("no arithmetic for this data type");
  request->ends = EqualParts(work.bucket->bytes, ranks_);
  Register(work, request);
  return request;
}

void InternodeBuckets::Register(const Work& work, const std::shared_ptr<Request>& request) {
  binding_.begins(work);
  std::lock_guard<std::mutex> lock(mutex_);
  requests_[work.bucket->id] = request;
}

std::shared_ptr<InternodeBuckets::Request> InternodeBuckets::EndRequest(int bucket_id) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = requests_.find(bucket_id);
  std::shared_ptr<Request> request = std::move(entry->second);
  requests_.erase(entry);
  buffers_.Return(std::move(request->part));
  request->memory.clear();
  request->result.reset();
  return request;
}

BufferPool::Buffer InternodeBuckets::TakeBuffer(std::int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  return buffers_.Take(bytes);
}

void InternodeBuckets::DumpState(StatePage& page) const {
  std::string peers;
  for (int group = 0; group < groups_; ++group) {
    if (group == group_) continue;
    peers += (peers.empty() ? "group " : ", group ") + std::to_string(group) + " rank " +
             std::to_string(RankAt(group, rank_));
  }
  page.Line(0, "this rank is of group " + std::to_string(group_) + "; its peers are of " + peers);
  std::vector<std::pair<int, Clock::time_point>> begun;
  page.Under(std::unique_lock<std::mutex>(mutex_, std::defer_lock), "buckets between nodes", [&] {
    for (const auto& [bucket_id, request] : requests_)
      begun.emplace_back(bucket_id, request->start);
  });
  for (const auto& [bucket_id, start] : begun) {
    page.Line(0,
              "between nodes for " + page.Age(start) + ": " + plans_.DumpBucket(page, bucket_id));
  }
}

}  // namespace horovod_opt
