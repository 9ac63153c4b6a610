#include "horovod_opt/csrc/core/reduction/horovod_ops_order.h"

#include <chrono>
#include <utility>

#include "horovod_opt/csrc/core/waiting/backoff.h"

namespace horovod_opt {
namespace {

constexpr int kBits = 64;
constexpr std::size_t kWords = ReadyQueue::kIds / kBits;
constexpr std::uint64_t kAll = ~std::uint64_t{0};
const std::atomic<bool> kOnlyLook{true};

}  // namespace

HorovodOpsOrder::HorovodOpsOrder(ReadyQueue& ready, ReadyQueue& order, And over_leaders)
    : ready_(ready), order_(order), and_(std::move(over_leaders)), pending_(kWords, 0) {}

void HorovodOpsOrder::Collect() {
  int bucket_id;
  const auto take_from = [&](const std::atomic<bool>& stop) {
    if (!ready_.Next(position_, bucket_id, stop, waits_)) return false;
    ++position_;
    std::uint64_t& word = pending_[bucket_id / kBits];
    const std::uint64_t bit = std::uint64_t{1} << bucket_id % kBits;
    pending_count_ += (word & bit) == 0;
    word |= bit;
    return true;
  };
  if (pending_count_ == 0 && !take_from(end_)) return;
  while (take_from(kOnlyLook)) continue;
}

bool HorovodOpsOrder::Run() {
  // Between two ANDs in which the leaders had nothing in common.
  Backoff backoff(0, std::chrono::microseconds(20), std::chrono::microseconds(500));
  for (;;) {
    Collect();
    std::vector<std::uint64_t> words = pending_;
    words.push_back(end_ ? 0 : kAll);
    if (!and_(words)) return false;
    const int before = pending_count_;
    for (std::size_t word = 0; word < kWords; ++word) {
      for (; words[word] != 0; words[word] &= words[word] - 1) {
        const int bit = __builtin_ctzll(words[word]);
        pending_[word] &= ~(std::uint64_t{1} << bit);
        --pending_count_;
        order_.Append(static_cast<int>(word) * kBits + bit);
      }
    }
    if (words[kWords] == 0) return true;
    if (pending_count_ == before) {
      backoff.Pause();
    } else {
      backoff.Reset();
    }
  }
}

void HorovodOpsOrder::Close() {
  end_ = true;
  ready_.Kick();
}

}  // namespace horovod_opt
