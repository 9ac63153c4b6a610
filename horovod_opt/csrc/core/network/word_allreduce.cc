#include "horovod_opt/csrc/core/network/word_allreduce.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "horovod_opt/csrc/core/network/progress_engine.h"
#include "horovod_opt/csrc/core/reduction/elementwise.h"

namespace horovod_opt {
namespace {

// How soon a failure of the exchanges is noticed.
constexpr std::chrono::milliseconds kLookAgain(100);

struct And {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a & b; }
};

constexpr std::size_t kFewWords = 128, kManyWords = 1 << 17;
constexpr int kTimesLittle = 8, kTimes = 5;

void AddUp(Transport& transport, int members, int self, std::size_t size,
           std::chrono::milliseconds patience) {
  const auto bytes = std::to_string(size * sizeof(Words::value_type)) + " bytes";
  const auto words = std::make_shared<Words>(size, self + 1);
  bool good = false;
  const auto ended = [&](Exchange::Outcome outcome) { good = outcome == Exchange::Outcome::kDone; };
  BufferPool buffers(0);
  auto exchange = std::make_unique<Exchange>(
      members, self, 0, size,
      ExchangedWords(words, &elementwise::Reduce<std::uint64_t, elementwise::Sum>), ended,
      Exchange::Sizes());
  const auto deadline = Transport::Clock::now() + patience;
  while (!exchange->Advance(transport, buffers)) {
    if (Transport::Clock::now() >= deadline) {
      if (transport.MustStay()) exchange.release();
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

bool LeadersAnd::operator()(std::vector<std::uint64_t>& words) {
  const auto call = std::make_shared<Call>();
  call->words = words;
  ExchangedData data =
      ExchangedWords({call, &call->words}, &elementwise::Reduce<std::uint64_t, And>);
  const auto ended = [call](Exchange::Outcome outcome) {
    std::lock_guard<std::mutex> lock(call->mutex);
    call->over = true;
    call->good = outcome == Exchange::Outcome::kDone;
    call->changed.notify_one();
  };
  exchanges_.Begin(std::make_unique<Exchange>(members_, self_, channels_, ++calls_, std::move(data),
                                              ended, Exchange::Sizes()));
  std::unique_lock<std::mutex> lock(call->mutex);
  while (!call->changed.wait_for(lock, kLookAgain, [&] { return call->over; })) {
    if (closed_ || !exchanges_.Failure().empty()) return false;
  }
  words = call->words;
  return call->good;
}

std::chrono::nanoseconds TryExchange(Transport& transport, int members, int self,
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
