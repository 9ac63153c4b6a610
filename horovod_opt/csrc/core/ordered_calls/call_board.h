// A board in shared memory, on which each rank of a group writes what call it is at, and where the
// first rank that finds the group beyond help writes why.
//
// Calls of a group have numbers: 1, 2, 3, ... in the order in which each rank makes them, which must
// be one order. So call n is the same call on all ranks, and what they say about it must be equal.
//
// Invariants (each with a test that fails without it):
// 1. A rank writes call n only when it has ended call n - 1, so no rank is ahead of another by more
//    than one call that both wait for: entry n is not overwritten while somebody is at n.
// 2. `number` is stored after the rest and loaded before it.
// 3. One rank breaks the group, and all that look later find its text whole.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "horovod_opt/csrc/core/base/rounding.h"
#include "horovod_opt/csrc/core/ordered_calls/call_facts.h"

namespace horovod_opt {

class CallBoard {
 public:
  static std::size_t Bytes(int ranks) {
    return sizeof(Breach) + static_cast<std::size_t>(ranks) * sizeof(Row);
  }

  // `memory`: Bytes() zeroed bytes, aligned to 64, the same on every rank.
  CallBoard(void* memory, int rank, int ranks)
      : breach_(static_cast<Breach*>(memory)),
        rows_(reinterpret_cast<Row*>(breach_ + 1)),
        rank_(rank),
        ranks_(ranks) {}

  void Write(std::uint64_t number, std::uint64_t fingerprint, const CallFacts& facts) {
    Entry& entry = rows_[rank_].entries[number % kEntries];
    entry.facts = facts;
    entry.fingerprint = fingerprint;
    entry.number.store(number);
  }

  // Those that have not come to call `number`.
  std::vector<int> Missing(std::uint64_t number) const {
    std::vector<int> missing;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!IsAt(rank, number) && !HasEnded(rank, number)) missing.push_back(rank);
    }
    return missing;
  }

  // A rank that has another call of this number; -1: none yet. Only while this rank is at it.
  int Differing(std::uint64_t number) const {
    const std::uint64_t own = rows_[rank_].entries[number % kEntries].fingerprint;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (IsAt(rank, number) && rows_[rank].entries[number % kEntries].fingerprint != own) {
        return rank;
      }
    }
    return -1;
  }

  const CallFacts& FactsOf(int rank, std::uint64_t number) const {
    return rows_[rank].entries[number % kEntries].facts;
  }

  // This rank makes no call after `number`.
  void Leave(std::uint64_t number) { rows_[rank_].left_after.store(number + 1); }
  bool HasEnded(int rank, std::uint64_t number) const { return rows_[rank].left_after > number; }

  // Returns whether this rank was the first.
  bool Break(const std::string& text) {
    std::uint32_t whole = 0;
    if (!breach_->state.compare_exchange_strong(whole, 1)) return false;
    const std::size_t size = std::min(text.size(), sizeof(breach_->text) - 1);
    std::memcpy(breach_->text, text.data(), size);
    breach_->text[size] = '\0';
    breach_->state.store(2);
    return true;
  }

  // Why the group is broken; empty: it is not, or nobody has said why yet.
  std::string Breakage() const { return breach_->state.load() == 2 ? breach_->text : ""; }

 private:
  static constexpr std::uint64_t kEntries = 4;

  struct alignas(kCacheLine) Breach {
    std::atomic<std::uint32_t> state;  // 1: the text is being written; 2: it is there
    char text[2 * 1024 - sizeof(std::uint32_t)];
  };
  struct alignas(kCacheLine) Entry {
    std::atomic<std::uint64_t> number;
    std::uint64_t fingerprint;
    CallFacts facts;
  };
  struct alignas(kCacheLine) Row {
    std::atomic<std::uint64_t> left_after;  // a number and 1; 0: it is there
    Entry entries[kEntries];
  };

  bool IsAt(int rank, std::uint64_t number) const {
    return rows_[rank].entries[number % kEntries].number.load() == number;
  }

  Breach* const breach_;
  Row* const rows_;
  const int rank_;
  const int ranks_;
};

}  // namespace horovod_opt
