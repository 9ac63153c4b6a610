#include "horovod_opt/csrc/core/network/bitwise_and.h"

#include <chrono>

#include "horovod_opt/csrc/core/network/word_allreduce.h"
#include "horovod_opt/csrc/core/reduction/elementwise.h"

namespace horovod_opt {
namespace {

// How soon a failure of the exchanges is noticed.
constexpr std::chrono::milliseconds kLookAgain(100);

struct And {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a & b; }
};

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

}  // namespace horovod_opt
