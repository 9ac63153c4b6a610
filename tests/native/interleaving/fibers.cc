#include "tests/native/interleaving/fibers.h"

#include <exception>

namespace horovod_opt {
namespace interleaving {
namespace {

constexpr std::size_t kStack = 256 << 10;

struct Stopped {};

Fibers* running_world = nullptr;
std::vector<std::unique_ptr<char[]>> stacks;  // that no fiber has

using exploration::Event;
using exploration::Footprint;
using exploration::Violation;

}  // namespace

Fibers* Fibers::Running() { return running_world; }

void Fibers::Start(std::string name, std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  fiber->name = std::move(name);
  fiber->body = std::move(body);
  if (stacks.empty()) stacks.push_back(std::make_unique<char[]>(kStack));
  fiber->stack = std::move(stacks.back());
  stacks.pop_back();
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = kStack;
  fiber->context.uc_link = nullptr;
  makecontext(&fiber->context, &Fibers::Main, 0);
  fibers_.push_back(std::move(fiber));
}

void Fibers::Main() {
  Fibers& world = *running_world;
  Fiber& self = *world.fibers_[world.running_];
  try {
    self.body();
  } catch (const std::exception& failure) {
    self.failure = failure.what();
  } catch (const Stopped&) {
  }
  self.ended = true;
  swapcontext(&self.context, &world.scheduler_);
}

void Fibers::SwitchTo(int number) {
  Fiber& fiber = *fibers_[number];
  fiber.started = true;
  running_ = number;
  running_world = this;
  std::swap(flag_, fiber.flag);
  swapcontext(&scheduler_, &fiber.context);
  std::swap(flag_, fiber.flag);
  running_world = nullptr;
  running_ = -1;
}

void Fibers::Settle() {
  for (std::size_t number = 0; number < fibers_.size(); ++number)
    SwitchTo(static_cast<int>(number));
}

void Fibers::Yield() {
  swapcontext(&fibers_[running_]->context, &scheduler_);
  if (stops_ && std::uncaught_exceptions() == 0) throw Stopped();
}

void Fibers::Stop() {
  stops_ = true;
  for (std::size_t number = 0; number < fibers_.size(); ++number) {
    if (fibers_[number]->started && !fibers_[number]->ended) SwitchTo(static_cast<int>(number));
    stacks.push_back(std::move(fibers_[number]->stack));
  }
}

std::vector<Event> Fibers::Enabled() const {
  std::vector<Event> events;
  for (std::size_t number = 0; number < fibers_.size(); ++number) {
    const Fiber& fiber = *fibers_[number];
    if (fiber.ended || (fiber.may != nullptr && !fiber.may())) continue;
    events.push_back({static_cast<int>(number), 0});
  }
  return events;
}

Footprint Fibers::Do(const Event& event) {
  footprint_ = 0;
  Fiber& fiber = *fibers_[event.actor];
  fiber.history = 31 * fiber.history + 1;
  SwitchTo(event.actor);
  if (!fiber.failure.empty()) throw Violation(fiber.name + ": " + fiber.failure);
  return footprint_;
}

std::string Fibers::State() const {
  std::string state;
  for (const auto& fiber : fibers_) {
    const bool may = !fiber->ended && (fiber->may == nullptr || fiber->may());
    state += std::to_string(fiber->history) + (may ? "+" : "-");
  }
  for (const Object& object : objects_) state += std::to_string(object.value) + ",";
  return state;
}

void Fibers::CheckEnd() {
  for (const auto& fiber : fibers_) {
    if (!fiber->ended) throw Violation("nothing goes on, and " + fiber->name + " waits");
  }
}

std::string Fibers::Name(const Event& event) const { return fibers_[event.actor]->name; }

int Fibers::NumberOf(const void* object) {
  const auto [known, is_new] = numbers_.try_emplace(object, static_cast<int>(objects_.size()));
  if (is_new) objects_.emplace_back();
  footprint_ |= Footprint{1} << (known->second % 64);
  return known->second;
}

void Fibers::Step(const void* object, std::function<bool()> may) {
  if (stops_) {
    if (std::uncaught_exceptions() == 0) throw Stopped();
    return;
  }
  Fiber& self = *fibers_[running_];
  self.may = std::move(may);
  Yield();
  self.may = nullptr;
  if (stops_) return;
  CheckAccess(running_, object);
  NumberOf(object);
}

void Fibers::HasRead(const void* object, std::uint64_t value) {
  if (stops_) return;
  Fiber& self = *fibers_[running_];
  const int number = NumberOf(object);
  self.history =
      (self.history * 1000003 + static_cast<std::uint64_t>(number)) * 1000003 + value + 1;
  self.read.emplace_back(number, objects_[number].version);
}

void Fibers::HasWritten(const void* object, std::uint64_t value) {
  if (stops_) return;
  Fiber& self = *fibers_[running_];
  const int number = NumberOf(object);
  self.history =
      (self.history * 1000003 + static_cast<std::uint64_t>(number)) * 1000003 + value + 7;
  if (objects_[number].value != value) ++objects_[number].version;
  objects_[number].value = value;
}

void Fibers::Doze() {
  Fiber& self = *fibers_[running_];
  const auto changed = [this, read = std::exchange(self.read, {})] {
    for (const auto& [number, version] : read) {
      if (objects_[number].version != version) return true;
    }
    return false;
  };
  Step(&self, changed);
}

}  // namespace interleaving
}  // namespace horovod_opt
