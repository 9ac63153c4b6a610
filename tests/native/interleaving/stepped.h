// Atomics, mutexes and futexes whose accesses are steps of fibers: sequentially consistent, as
// those of the product are unless they say otherwise. In place of the standard's, for sources that
// are compiled between stepped_begin.h and stepped_end.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "tests/native/interleaving/fibers.h"

namespace horovod_opt {
namespace interleaving {

template <class T>
class Atomic {
 public:
  static constexpr bool is_always_lock_free = true;

  Atomic() = default;
  constexpr Atomic(T value) : value_(value) {}  // NOLINT: as std::atomic
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order = std::memory_order_seq_cst) const {
    Begin(order);
    if (Fibers* const world = Fibers::Running()) world->HasRead(this, Word(value_));
    return value_;
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst) {
    Begin(order);
    Write(value);
  }
  T exchange(T value) {
    return Change([&](T) { return value; });
  }
  T fetch_add(T number) {
    return Change([&](T value) { return static_cast<T>(value + number); });
  }
  T fetch_sub(T number) {
    return Change([&](T value) { return static_cast<T>(value - number); });
  }
  bool compare_exchange_strong(T& expected, T desired) {
    const T before = Change([&](T value) { return value == expected ? desired : value; });
    const bool is_equal = before == expected;
    expected = before;
    return is_equal;
  }
  operator T() const { return load(); }  // NOLINT: as std::atomic
  T operator=(T value) {                 // NOLINT: as std::atomic
    store(value);
    return value;
  }
  T Peek() const { return value_; }  // of a test, and no access

  T operator+=(T number) { return static_cast<T>(fetch_add(number) + number); }
  T operator++() { return static_cast<T>(fetch_add(1) + 1); }
  T operator--() { return static_cast<T>(fetch_sub(1) - 1); }

 private:
  static std::uint64_t Word(T value) { return static_cast<std::uint64_t>(value); }
  void Begin(std::memory_order order) const {
    Fibers* const world = Fibers::Running();
    if (world != nullptr && order == std::memory_order_seq_cst) world->Step(this);
  }
  void Write(T value) {
    value_ = value;
    if (Fibers* const world = Fibers::Running()) world->HasWritten(this, Word(value));
  }
  template <class To>
  T Change(const To& to) {
    const T before = load();
    Write(to(before));
    return before;
  }

  T value_;
};

// Of one writer or several readers. Who reads takes no step of its own: only a writer excludes it.
class Mutex {
 public:
  void lock() {
    Fibers* const world = Fibers::Running();
    if (world == nullptr) return;
    world->Step(this, [this] { return !is_locked_ && readers_ == 0; });
    world->HasRead(this, history_);
    is_locked_ = true;
    history_ = 31 * history_ + static_cast<std::uint64_t>(world->number()) + 1;
    world->HasWritten(this, history_);
  }
  // For pages of a process' state, which no fiber asks for.
  bool try_lock() { return false; }
  bool try_lock_shared() { return false; }
  void unlock() {
    Fibers* const world = Fibers::Running();
    if (world == nullptr) return;
    is_locked_ = false;
    world->HasRead(this, history_);
  }
  void lock_shared() {
    Fibers* const world = Fibers::Running();
    if (world == nullptr) return;
    if (is_locked_) world->Step(this, [this] { return !is_locked_; });
    world->HasRead(this, history_);
    ++readers_;
  }
  void unlock_shared() {
    if (Fibers::Running() != nullptr) --readers_;
  }

 private:
  bool is_locked_ = false;
  int readers_ = 0;
  std::uint64_t history_ = 0;  // of those that have locked it
};

}  // namespace interleaving
}  // namespace horovod_opt

namespace std {  // so that std::atomic and std::mutex can be read as these
using horovod_opt::interleaving::Atomic;
using horovod_opt::interleaving::Mutex;
}  // namespace std
