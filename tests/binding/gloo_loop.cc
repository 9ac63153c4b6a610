// Gloo's thread for its connections, which is woken where it sleeps and looks every 10 ms where not.
// Prints how often each of the two has looked for events while nothing happened, and how many
// events a sleeping one has handled.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>

#include <gloo/transport/tcp/loop.h>

namespace {

std::atomic<int> looks_asleep{0}, looks_awake{0};

int CountedWait(int epoll, epoll_event* events, int most, int milliseconds) {
  ++(milliseconds < 0 ? looks_asleep : looks_awake);
  return epoll_wait(epoll, events, most, milliseconds);
}

}  // namespace

#define epoll_wait CountedWait
#include <gloo/transport/tcp/loop.cc>
#undef epoll_wait

namespace {

using gloo::transport::tcp::Handler;
using gloo::transport::tcp::Loop;

// An event that its handler takes back.
class Event final : public Handler {
 public:
  ~Event() override { close(number); }
  void Happen() const { eventfd_write(number, 1); }
  void handleEvents(int) override {
    eventfd_t times;
    eventfd_read(number, &times);
    ++handled;
  }

  const int number = eventfd(0, EFD_NONBLOCK);
  std::atomic<int> handled{0};
};

void Await(const std::atomic<int>& value, int least) {
  while (value < least) std::this_thread::yield();
}

void Idle() {
  Loop asleep(true), awake(false);
  Await(looks_asleep, 1);
  Event event;
  asleep.registerDescriptor(event.number, EPOLLIN, &event);
  event.Happen();
  Await(event.handled, 1);
  Await(looks_asleep, 2);
  const int before = looks_asleep;
  Await(looks_awake, looks_awake + 20);
  std::printf("idle %d\n", looks_asleep - before);
  asleep.unregisterDescriptor(event.number, &event);
}

// Whoever takes an event away may free it: a sanitizer sees it if the loop still touches it.
void Taken() {
  Loop loop(true);
  int handled = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto event = std::make_unique<Event>();
    loop.registerDescriptor(event->number, EPOLLIN, event.get());
    event->Happen();
    if (i % 2 == 0) Await(event->handled, 1);
    loop.unregisterDescriptor(event->number, event.get());
    if (i % 2 == 0) handled += event->handled;
  }
  std::printf("handled %d\n", handled);
}

void Ended() {
  int ended = 0;
  for (; ended < 200; ++ended) Loop loop(true);
  std::printf("ended %d\n", ended);
}

}  // namespace

int main() {
  Idle();
  Taken();
  Ended();
}
