// Notes of the ranks of a group, in c10d's key-value store. Asked in a thread of its own: who asks does
// not wait for a store that has gone with its host, or that another thread waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "horovod_opt/csrc/core/ordered_calls/group_notes.h"

namespace horovod_opt {

class StoreNotes final : public GroupNotes {
 public:
  StoreNotes(c10::intrusive_ptr<c10d::Store> store, int rank, int ranks)
      : store_(std::move(store)), rank_(rank), ranks_(ranks) {}

  void Write(const std::string& note) override {
    Ask<bool>([store = store_, key = KeyOf(rank_), note] {
      store->set(key, BytesOf(note));
      return true;
    });
  }

  std::vector<std::string> Read() override {
    const auto notes = Ask<std::vector<std::string>>([store = store_, ranks = ranks_] {
      std::vector<std::string> found(static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        const std::string key = KeyOf(rank);
        if (!store->check({key})) continue;
        const std::vector<std::uint8_t> note = store->get(key);
        found[static_cast<std::size_t>(rank)].assign(note.begin(), note.end());
      }
      return found;
    });
    return notes.value_or(std::vector<std::string>(static_cast<std::size_t>(ranks_)));
  }

  std::string Settle(const std::string& text) override {
    const auto settled = Ask<std::string>([store = store_, text] {
      const std::vector<std::uint8_t> first = store->compareSet("settled", {}, BytesOf(text));
      return std::string(first.begin(), first.end());
    });
    return settled && !settled->empty() ? *settled : text;
  }

 private:
  static constexpr std::chrono::seconds kPatience{2};

  static std::string KeyOf(int rank) { return "note of rank " + std::to_string(rank); }
  static std::vector<std::uint8_t> BytesOf(const std::string& text) {
    return {text.begin(), text.end()};
  }

  template <class Answer, class Question>
  static std::optional<Answer> Ask(Question question) {
    std::packaged_task<Answer()> task(std::move(question));
    std::future<Answer> answer = task.get_future();
    std::thread(std::move(task)).detach();
    if (answer.wait_for(kPatience) != std::future_status::ready) return std::nullopt;
    try {
      return answer.get();
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const int rank_, ranks_;
};

}  // namespace horovod_opt
