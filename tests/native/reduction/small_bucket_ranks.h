// Ranks as threads, each with its plans, a thread of the planned path and framework threads, over
// one memory.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/plan/plan_table.h"
#include "horovod_opt/csrc/core/reduction/small_buckets.h"
#include "tests/native/plan/sample_plans.h"
#include "tests/native/reduction/node_ranks.h"

namespace horovod_opt {

constexpr int kBucketIds = 32;
constexpr Reduction kIntSums{data_type::kInt32, reduce_op::kSum};

struct NumberArrival : Arrival {
  bool DataReady() override { return late_looks-- <= 0; }
  int value = 0, sum = 0;
  int late_looks = 0;  // that see no data yet
  std::atomic<bool>* done = nullptr;
};

// The memory of a group.
struct SmallBucketNode {
  explicit SmallBucketNode(int ranks) : places(BucketPlaces::Bytes(ranks)) {}

  // Until so many buckets are ready on all ranks.
  void AwaitEntries(std::uint64_t least) const {
    while (queue.As<ReadyQueue>().Size() < least) std::this_thread::yield();
  }

  // All that is in it.
  std::vector<char> Bytes() const {
    std::vector<char> bytes;
    for (const Zeros* memory : {&queue, &places}) {
      const char* const data = static_cast<const char*>(memory->data());
      bytes.insert(bytes.end(), data, data + memory->size());
    }
    return bytes;
  }

  Zeros queue{ReadyQueue::Bytes()};
  Zeros places;
};

class SmallBucketRank {
 public:
  SmallBucketRank(SmallBucketNode& node, int rank, int ranks,
                  std::chrono::nanoseconds spin = std::chrono::nanoseconds(0))
      : queue_(node.queue.As<ReadyQueue>()),
        places_(node.places.data(), rank, ranks),
        rank_(rank),
        small_buckets_(std::make_unique<SmallBuckets>(
            plans_, counters_, queue_, places_, rank, ranks,
            SmallBuckets::Binding{
                [this](const Work&) { ++performed_; },
                [](const Work&, const auto& problem) { return std::string(problem.what()); },
                [](const Work&) {},
                [this](const Work& work, const std::string& error) {
                  EXPECT_EQ(error, "");
                  CallBack(work);
                  if (after_callback_) after_callback_();
                }},
            spin)) {
    plans_.UseSmallBucketPath(*small_buckets_, BucketPlaces::kMemory);
  }

  PlanTable& plans() { return plans_; }
  int performed() const { return performed_; }
  // By the thread of the planned path.
  int takes() const { return takes_; }

  void StartThread() {
    thread_ = std::thread([this] {
      WaitCounts waits;
      int bucket_id = 0;
      for (std::uint64_t position = 0; queue_.Next(position, bucket_id, end_, waits, rank_);) {
        small_buckets_->CameTo(++position);
        Work work = plans_.Take(bucket_id);
        if (work.IsEmpty()) continue;
        ++takes_;
        for (const ArrivalPtr& arrival : work.arrivals) {
          while (!arrival->DataReady()) std::this_thread::yield();
        }
        Reduce(work);
        CallBack(work);
      }
    });
  }

  std::string State() const {
    StatePage page;
    small_buckets_->DumpState(page);
    return page.Text();
  }

  // Called by the framework's thread that has performed a bucket.
  void AfterCallback(std::function<void()> call) { after_callback_ = std::move(call); }

  // As a shutdown does, without a thread of the planned path.
  void Close() {
    plans_.Finish();
    small_buckets_->Close();
    small_buckets_.reset();
  }

  void Finish() {
    plans_.Finish();
    small_buckets_->Close();
    end_ = true;
    queue_.Kick();
    thread_.join();
  }

  void Send(std::int64_t key, int value) { Send(key, value, 0, never_done_); }
  // A tensor is in a bucket, and the thread that sent it spins, if it does.
  void AwaitTensor() const {
    while (plans_.PendingTensors().empty()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  // Sends a tensor and waits for its sum; -1 if it is not planned.
  int Allreduce(std::int64_t key, int value, int late_looks = 0) {
    std::atomic<bool> done{false};
    if (!Send(key, value, late_looks, done)) return -1;
    // A yield takes a time slice where other processes are busy, a sleep does not.
    while (!done.load()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    return sums_[key].load();
  }

 private:
  bool Send(std::int64_t key, int value, int late_looks, std::atomic<bool>& done) {
    auto number = std::make_unique<NumberArrival>();
    number->value = value;
    number->segment = {&number->value, &number->sum, 4};
    number->late_looks = late_looks;
    number->done = &done;
    ArrivalPtr arrival = std::move(number);
    return ArriveAt(plans_, key, arrival, 4, kIntSums) == Route::kPlanned;
  }

  void Reduce(const Work& work) {
    WaitCounts waits;
    ASSERT_TRUE(small_buckets_->Reduce(work, never_, waits));
    plans_.MarkReduced(work);
  }

  void CallBack(const Work& work) {
    for (std::size_t i = 0; i < work.arrivals.size(); ++i) {
      auto& number = static_cast<NumberArrival&>(*work.arrivals[i]);
      sums_[keys_[work.bucket->plan->hash] + work.bucket->slots[i]] = number.sum;
      number.done->store(true);
    }
  }

 public:
  void Learn(const Plan& plan) {
    keys_[plan.hash] = plan.slots[0].key;
    ASSERT_TRUE(Activate(plans_, plan));
  }

 private:
  ReadyQueue& queue_;
  BucketPlaces places_;
  const int rank_;
  std::atomic<int> performed_{0}, takes_{0};
  std::atomic<bool> end_{false};
  const std::atomic<bool> never_{false};
  std::atomic<bool> never_done_{false};
  std::map<std::string, std::int64_t> keys_;  // of a plan's first slot
  std::array<std::atomic<int>, 64> sums_{};   // by key
  PlanTable plans_{kBucketIds, [](const auto&) { ADD_FAILURE() << "a bucket without a place"; },
                   [] {}};
  PathCounters counters_;
  std::unique_ptr<SmallBuckets> small_buckets_;
  std::function<void()> after_callback_;
  std::thread thread_;
};

inline Plan CallPlan(const std::string& hash, int slots, std::int64_t first_key) {
  std::vector<int> bucket(slots);
  for (int i = 0; i < slots; ++i) bucket[i] = i;
  Plan plan = MakePlan(hash, slots, {bucket}, first_key);
  for (Slot& slot : plan.slots) slot.reduction = kIntSums;
  plan.is_call = true;
  return plan;
}

}  // namespace horovod_opt
