// Threads as fibers (ucontext), so that a search takes their steps in every order: from one access
// to an object that threads share to the next.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/native/exploration/search.h"

namespace horovod_opt {
namespace interleaving {

class Fibers : public exploration::World {
 public:
  // The world whose fiber runs now; nullptr: none does.
  static Fibers* Running();

  std::vector<exploration::Event> Enabled() const override;
  exploration::Footprint Do(const exploration::Event& event) override;
  std::string State() const override;
  void CheckEnd() override;
  std::string Name(const exploration::Event& event) const override;

  // --- within a fiber ---
  // The next access is to this object. Returns when it is this fiber's turn and `may`, if there is
  // one, is true.
  void Step(const void* object, std::function<bool()> may = nullptr);
  // What the access was.
  void HasRead(const void* object, std::uint64_t value);
  void HasWritten(const void* object, std::uint64_t value);
  // Until another fiber has written something that this one has read since it last dozed.
  void Doze();
  int number() const { return running_; }

 protected:
  // Of a thread that sets it for itself alone.
  explicit Fibers(bool& thread_local_flag) : flag_(thread_local_flag) {}

  void Start(std::string name, std::function<void()> body);
  // Lets each come to its first step.
  void Settle();
  // Unwinds those that have not ended: before what they use is gone.
  void Stop();
  bool HasEnded(int number) const { return fibers_[number]->ended; }
  // Throws Violation if this fiber must not do so any more.
  virtual void CheckAccess(int number, const void* object) const = 0;

 private:
  struct Fiber {
    std::string name;
    std::function<void()> body;
    std::function<bool()> may;
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool started = false, ended = false, flag = false;
    std::uint64_t history = 0;                        // of what it has read and written
    std::vector<std::pair<int, std::uint64_t>> read;  // objects and their versions
    std::string failure;
  };
  struct Object {
    std::uint64_t value = 0, version = 0;
  };

  static void Main();
  int NumberOf(const void* object);
  void SwitchTo(int number);
  void Yield();

  bool& flag_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::unordered_map<const void*, int> numbers_;  // in the order in which they are accessed first
  std::vector<Object> objects_;
  ucontext_t scheduler_;
  int running_ = -1;
  bool stops_ = false;
  exploration::Footprint footprint_ = 0;
};

}  // namespace interleaving
}  // namespace horovod_opt
