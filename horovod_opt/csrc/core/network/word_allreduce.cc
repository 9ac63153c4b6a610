#include "horovod_opt/csrc/core/network/word_allreduce.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/core/elements/elementwise.h"
#include "horovod_opt/csrc/core/network/progress_engine.h"

namespace horovod_opt {
namespace {

// How soon a failure of the allreduces is noticed.
constexpr std::chrono::milliseconds kLookAgain(100);

struct And {
  template <class T>
  static T Of(T a, T b) {
    return a & b;
  }
};

constexpr std::size_t kFewWords = 128, kManyWords = 1 << 17;
constexpr int kTimesLittle = 8, kTimes = 5;

void AddUp(Transport& transport, int members, int self, std::size_t size,
           std::chrono::milliseconds patience) {
  const auto bytes = std::to_string(size * sizeof(Words::value_type)) + " bytes";
  const auto words = std::make_shared<Words>(size, self + 1);
  bool good = false;
  const auto on_end = [&](NonblockingAllreduce::Outcome outcome) {
    good = outcome == NonblockingAllreduce::Outcome::kDone;
  };
  BufferPool buffers(0);
  auto allreduce = std::make_unique<NonblockingAllreduce>(
      members, self, 0, size,
      AllreduceDataOf(words, &elementwise::Reduce<std::uint64_t, elementwise::Sum>), on_end,
      NonblockingAllreduce::Sizes());
  const auto deadline = Transport::Clock::now() + patience;
  while (!allreduce->Advance(transport, buffers)) {
    if (Transport::Clock::now() >= deadline) {
      if (transport.MustStay()) allreduce.release();
      throw std::runtime_error("a sum of " + bytes +
                               " with the other nodes has not come about in " +
                               std::to_string(patience.count() / 1000) + " s");
    }
    transport.Progress(deadline);
  }
  const auto sum = static_cast<std::uint64_t>(members) * (members + 1) / 2;
  if (!good || *words != Words(size, sum)) {
    throw std::runtime_error("a sum of " + bytes + " with the other nodes is wrong");
  }
}

}  // namespace

bool BitwiseAndAllreduce::operator()(std::vector<std::uint64_t>& words) {
  const auto call = std::make_shared<Call>();
  call->words = words;
  AllreduceData data =
      AllreduceDataOf({call, &call->words}, &elementwise::Reduce<std::uint64_t, And>);
  const auto on_end = [call](NonblockingAllreduce::Outcome outcome) {
    std::lock_guard<std::mutex> lock(call->mutex);
    call->over = true;
    call->good = outcome == NonblockingAllreduce::Outcome::kDone;
    call->changed.notify_one();
  };
  engine_.Begin(std::make_unique<NonblockingAllreduce>(members_, self_, channels_, ++calls_,
                                                       std::move(data), on_end,
                                                       NonblockingAllreduce::Sizes()));
  std::unique_lock<std::mutex> lock(call->mutex);
  while (!call->changed.wait_for(lock, kLookAgain, [&] { return call->over; })) {
    if (closed_ || !engine_.Failure().empty()) return false;
  }
  words = call->words;
  return call->good;
}

std::chrono::nanoseconds TryAllreduce(Transport& transport, int members, int self,
                                      std::chrono::milliseconds patience) {
  auto best = std::chrono::nanoseconds::max();
  for (int time = 0; time < kTimes; ++time) {
    const auto start = Transport::Clock::now();
    for (int i = 0; i < kTimesLittle; ++i) AddUp(transport, members, self, kFewWords, patience);
    AddUp(transport, members, self, kManyWords, patience);
    best = std::min<std::chrono::nanoseconds>(best, Transport::Clock::now() - start);
  }
  return best;
}

}  // namespace horovod_opt
