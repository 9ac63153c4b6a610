// c10d's key-value store as a meeting place.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/agreement/meeting.h"

namespace horovod_opt {

// Its keys are the group's alone and no earlier processes', which may have left theirs in the store
// (horovod_opt/c10d/store_generation.py). What ranks show stays there: a few short texts a group.
//
// The meeting ends well for all ranks or for none: whoever first says how it has ended, Conclude() or
// a rank that has waited for too long, has said it for all of them. Conclude() is called when all ranks
// have shown their last text, so who still waits then will find it.
class StoreMeeting final : public RankMeeting {
 public:
  // `names`: of the group's ranks, in the job; empty: their numbers in the group. `group`: for people.
  StoreMeeting(c10::intrusive_ptr<c10d::Store> store, int rank, int ranks, std::vector<int> names,
               std::chrono::milliseconds timeout, std::string group)
      : store_(std::move(store)),
        rank_(rank),
        ranks_(ranks),
        names_(std::move(names)),
        timeout_(timeout),
        group_(std::move(group)) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int NameOf(int rank) const override {
    return names_.empty() ? rank : names_[static_cast<std::size_t>(rank)];
  }

  // Throws what the store does, and std::runtime_error if the meeting has failed, with the text that
  // all ranks get.
  std::vector<SharedText> Gather(const std::string& text) override {
    const std::string step = "step " + std::to_string(steps_++) + " rank ";
    // An empty value is none for some stores.
    const std::string shown = ":" + text;
    store_->set(step + std::to_string(rank_), BytesOf(shown));
    const auto since = Clock::now();
    std::vector<SharedText> texts;
    for (int rank = 0; rank < ranks_; ++rank) {
      Await(step, rank, since);
      const std::vector<std::uint8_t> value = store_->get(step + std::to_string(rank));
      texts.emplace_back(std::string(value.begin() + 1, value.end()));
    }
    return texts;
  }

  // After the last step. Throws as Gather() does.
  void Conclude() { RequireWell(Settle(kWell)); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr const char* kOutcome = "outcome";
  static constexpr const char* kWell = "well";
  static constexpr std::chrono::microseconds kFirstPause{100};
  static constexpr std::chrono::microseconds kLastPause{50'000};

  static std::vector<std::uint8_t> BytesOf(const std::string& text) {
    return {text.begin(), text.end()};
  }

  // Asks and does not wait in the store: a waiting client blocks the process's other users of it.
  void Await(const std::string& step, int rank, Clock::time_point since) {
    const std::string key = step + std::to_string(rank);
    for (auto pause = kFirstPause; !store_->check({key}); pause = std::min(2 * pause, kLastPause)) {
      if (store_->check({kOutcome})) {
        const std::vector<std::uint8_t> outcome = store_->get(kOutcome);
        RequireWell({outcome.begin(), outcome.end()});
      } else if (Clock::now() - since >= timeout_) {
        RequireWell(Settle(WhoIsMissing(step)));
      }
      std::this_thread::sleep_for(pause);
    }
  }

  // How it has ended, for all ranks.
  std::string Settle(const std::string& outcome) {
    const std::vector<std::uint8_t> first = store_->compareSet(kOutcome, {}, BytesOf(outcome));
    return {first.begin(), first.end()};
  }

  static void RequireWell(const std::string& outcome) {
    if (outcome != kWell) throw std::runtime_error(outcome);
  }

  std::string WhoIsMissing(const std::string& step) {
    std::vector<int> missing;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!store_->check({step + std::to_string(rank)})) missing.push_back(NameOf(rank));
    }
    std::sort(missing.begin(), missing.end());
    return "first call of group " + group_ + ": " + WhoHasNotCome(missing, timeout_);
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int ranks_;
  const std::vector<int> names_;
  const std::chrono::milliseconds timeout_;
  const std::string group_;
  int steps_ = 0;
};

}  // namespace horovod_opt
