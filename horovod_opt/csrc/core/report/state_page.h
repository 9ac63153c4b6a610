// State dump: what a process that may hang tells of itself, in lines for people and in facts for a
// program that compares several processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace horovod_opt {

// For one thread, which must never hang itself: it takes locks by Under() alone.
class StatePage {
 public:
  using Clock = std::chrono::steady_clock;
  // How long a lock may be held before that is a finding, and how long a page waits for all locks
  // together: whoever asks for it is a person.
  static constexpr std::chrono::milliseconds kPatience{200}, kPatienceInAll{2000};

  explicit StatePage(Clock::time_point now = Clock::now()) : now_(now) {}

  // `depth`: 0 for a heading.
  void Line(int depth, const std::string& text);
  void Fact(const std::vector<std::string>& fields);

  // "2.3 s", and in milliseconds.
  std::string Age(Clock::time_point since) const;
  std::string Milliseconds(Clock::time_point since) const;
  // Some names with how many more there are: "'a', 'b' and 3 more".
  static std::string Names(const std::vector<std::string>& names);

  // Calls look() under the lock, a std::unique_lock or std::shared_lock that is not locked yet. If it cannot be had in time, says so
  // instead. `what`: the lock of what.
  template <class Lock, class Look>
  void Under(Lock&& lock, const std::string& what, const Look& look) {
    const auto start = Clock::now();
    while (!lock.try_lock()) {
      const auto waited = Clock::now() - start;
      if (waited >= kPatience || waited >= patience_left_) {
        patience_left_ -= waited;
        return Held(what);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    look();
  }

  // The lines, indented.
  std::string Text() const;
  // Lines of fields with tabs between them, the last one "end": see horovod_opt/doctor/rank_state.py.
  std::string Message() const { return message_ + "end\n"; }

 private:
  void Held(const std::string& what);

  const Clock::time_point now_;
  Clock::duration patience_left_ = kPatienceInAll;
  std::string text_, message_;
};

}  // namespace horovod_opt
