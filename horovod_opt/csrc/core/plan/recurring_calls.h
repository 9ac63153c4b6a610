// A cache of the calls that were negotiated last (LRU): which calls outside of graphs recur, and so
// are to be planned: eager ones, and whatever is not planned otherwise.
//
// A call is known by what it is: kind, name, shape, type, reduction. It is planned after it has
// been negotiated often enough, as a plan of its own. No rank asks another one:
//
// 1. All ranks perform the same negotiated responses in the same order. What is decided from them
//    alone is the same everywhere: also which calls are forgotten. Nothing is decided in a round in
//    which a rank has joined, which does not know what the others send.
// 2. It is decided before the response is performed. So on every rank, the call that follows comes
//    after the decision: a call under way keeps others of its name away.
// 3. From there on, the n-th such call of a rank belongs to iteration n. That is also how upstream
//    pairs calls of one name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>

namespace horovod_opt {

// So often: a plan of a graph is active before, and fuses; and what is called a few times only, as
// when training begins, is not worth a plan.
constexpr int kRecurrences = 5;

class RecurringCalls {
 public:
  // Remembers `capacity` calls, those that were negotiated last.
  explicit RecurringCalls(std::size_t capacity = 4096) : capacity_(capacity) {}

  // The call with this key is being negotiated. True if that has happened often enough; then it is
  // forgotten.
  bool Recurs(std::int64_t key) {
    const auto place = places_.find(key);
    if (place == places_.end()) {
      calls_.push_front({key, 1});
      places_[key] = calls_.begin();
      if (calls_.size() <= capacity_) return false;
      places_.erase(calls_.back().first);
      calls_.pop_back();
      return false;
    }
    const auto call = place->second;
    calls_.splice(calls_.begin(), calls_, call);
    if (++call->second < kRecurrences) return false;
    calls_.erase(call);
    places_.erase(place);
    return true;
  }

 private:
  using Calls = std::list<std::pair<std::int64_t, int>>;  // key, times; the last one first

  const std::size_t capacity_;
  Calls calls_;
  std::unordered_map<std::int64_t, Calls::iterator> places_;
};

}  // namespace horovod_opt
