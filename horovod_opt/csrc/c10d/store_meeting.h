// c10d's key-value store as a meeting place.
#pragma once

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/agreement/meeting.h"

namespace horovod_opt {

// Its keys are the group's alone. What ranks show stays in the store: a few short texts a group.
class StoreMeeting final : public RankMeeting {
 public:
  // `names`: of the group's ranks, in the job; empty: their numbers in the group.
  StoreMeeting(c10::intrusive_ptr<c10d::Store> store, int rank, int ranks, std::vector<int> names,
               std::chrono::milliseconds timeout)
      : store_(std::move(store)),
        rank_(rank),
        ranks_(ranks),
        names_(std::move(names)),
        timeout_(timeout) {}

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  int NameOf(int rank) const override {
    return names_.empty() ? rank : names_[static_cast<std::size_t>(rank)];
  }

  // Throws what the store does, as after its timeout.
  std::vector<SharedText> Gather(const std::string& text) override {
    const std::string step = "step " + std::to_string(steps_++) + " rank ";
    // An empty value is none for some stores.
    const std::string shown = ":" + text;
    store_->set(step + std::to_string(rank_),
                std::vector<std::uint8_t>(shown.begin(), shown.end()));
    std::vector<SharedText> texts;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::string key = step + std::to_string(rank);
      store_->wait({key}, timeout_);
      const std::vector<std::uint8_t> value = store_->get(key);
      texts.emplace_back(std::string(value.begin() + 1, value.end()));
    }
    return texts;
  }

 private:
  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_;
  const int ranks_;
  const std::vector<int> names_;
  const std::chrono::milliseconds timeout_;
  int steps_ = 0;
};

}  // namespace horovod_opt
