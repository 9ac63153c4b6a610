#include "horovod_opt/csrc/core/network/tcp_transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "horovod_opt/csrc/core/base/file_descriptor.h"
#include "horovod_opt/csrc/core/network/tcp_liveness.h"
#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"

namespace horovod_opt {
namespace {

using system_call::Fail;
using system_call::MillisecondsUntil;

constexpr int kEvents = 64;
// Bytes read of one neighbour before another one.
constexpr std::int64_t kMostAtOnce = 4 << 20;

constexpr std::int64_t kSignal = -1;  // in the place of a channel
// Of a message, far more than a chunk of a bucket: what says so is damaged, and gets no memory.
constexpr std::int64_t kMostBytes = 1 << 30;
constexpr const char* kClosed = "has closed its connection";
// How often in the time of silence that is allowed.
constexpr int kLooks = 4;

Descriptor NewTimer(std::chrono::milliseconds period) {
  Descriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (timer.number() < 0) system_call::Fail("cannot make a timer");
  itimerspec times{};
  times.it_interval.tv_sec = period.count() / 1000;
  times.it_interval.tv_nsec = period.count() % 1000 * 1000000;
  times.it_value = times.it_interval;
  if (timerfd_settime(timer.number(), 0, &times, nullptr) != 0) system_call::Fail("timerfd");
  return timer;
}

}  // namespace

// Before the data of a message. Of a signal there is nothing else: its number takes the place of
// the bytes.
struct TcpTransport::Frame {
  std::int64_t channel, bytes;

  std::int64_t DataBytes() const { return channel == kSignal ? 0 : bytes; }
};

struct TcpTransport::Neighbour {
  struct Outgoing {
    Frame frame;
    const char* data;
    std::int64_t position;  // bytes, the frame's included
    Operation* operation;   // nullptr: of a signal
  };
  struct Incoming {
    char* data;
    std::int64_t capacity;
    Operation* operation;
  };
  struct Channel {
    std::deque<Incoming> receives;
    std::deque<std::vector<char>> unexpected;  // whole messages
  };

  // Of a message that does not fit as much as does; its size tells.
  static void Deliver(const std::vector<char>& message, const Incoming& incoming) {
    const auto bytes = static_cast<std::int64_t>(message.size());
    std::copy_n(message.data(), std::min(bytes, incoming.capacity), incoming.data);
    incoming.operation->bytes = bytes;
    incoming.operation->done = true;
  }

  std::string name;  // with its address
  Descriptor socket;
  bool closed = false, wants_to_write = false;
  std::string loss;  // why it is closed
  std::deque<Outgoing> outgoing;
  std::map<std::int64_t, Channel> channels;
  // The message that is being read: into memory that somebody wants it in, or has yet to want.
  Frame frame{};
  std::int64_t read = 0;  // bytes, the frame's included
  bool has_receive = false;
  Incoming incoming{};
  std::vector<char> unexpected;
};

TcpTransport::TcpTransport(std::map<int, Descriptor> sockets, Options options)
    : options_(std::move(options)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (epoll_.number() < 0 || wake_.number() < 0) Fail("cannot make an epoll instance");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &wake_;
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, wake_.number(), &event) != 0) Fail("epoll_ctl");
  if (options_.silence.count() > 0) {
    timer_ = NewTimer(std::chrono::milliseconds(options_.silence) / kLooks);
    event.data.ptr = &timer_;
    if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, timer_.number(), &event) != 0) Fail("epoll_ctl");
  }
  for (auto& [member, socket] : sockets) Add(member, std::move(socket));
}

TcpTransport::~TcpTransport() = default;

void TcpTransport::Add(int member, Descriptor socket) {
  const int yes = 1;
  setsockopt(socket.number(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (options_.silence.count() > 0) KeepAlive(socket.number(), options_.silence);
  auto neighbour = std::make_unique<Neighbour>();
  neighbour->name = options_.name(member) + " at " + PeerAddress(socket);
  neighbour->socket = std::move(socket);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = neighbour.get();
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_ADD, neighbour->socket.number(), &event) != 0) {
    Fail("epoll_ctl");
  }
  neighbours_[member] = std::move(neighbour);
}

TcpTransport::Neighbour& TcpTransport::NeighbourOf(int member) { return *neighbours_.at(member); }

void TcpTransport::Send(int to, int channel, const void* data, std::int64_t bytes,
                        Operation& operation) {
  Neighbour& neighbour = NeighbourOf(to);
  operation.done = false;
  neighbour.outgoing.push_back({{channel, bytes}, static_cast<const char*>(data), 0, &operation});
  if (neighbour.closed) Lose(neighbour, "");
  if (neighbour.outgoing.size() == 1) Flush(neighbour);
}

void TcpTransport::Receive(int from, int channel, void* data, std::int64_t capacity,
                           Operation& operation) {
  Neighbour& neighbour = NeighbourOf(from);
  auto& queues = neighbour.channels[channel];
  operation.done = false;
  const Neighbour::Incoming incoming{static_cast<char*>(data), capacity, &operation};
  if (queues.unexpected.empty()) {
    queues.receives.push_back(incoming);
    if (neighbour.closed) Lose(neighbour, "");
    return;
  }
  Neighbour::Deliver(queues.unexpected.front(), incoming);
  queues.unexpected.pop_front();
}

void TcpTransport::Progress(Clock::time_point deadline) {
  epoll_event events[kEvents];
  const int count = epoll_wait(epoll_.number(), events, kEvents, MillisecondsUntil(deadline));
  if (count < 0 && errno != EINTR) Fail("epoll_wait");
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == &wake_) {
      std::uint64_t times;
      if (read(wake_.number(), &times, sizeof(times)) < 0 && errno != EAGAIN) Fail("eventfd");
      continue;
    }
    if (events[i].data.ptr == &timer_) {
      FindSilent();
      continue;
    }
    auto* const neighbour = static_cast<Neighbour*>(events[i].data.ptr);
    if (events[i].events & EPOLLOUT) Flush(*neighbour);
    if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) Read(*neighbour);
  }
}

void TcpTransport::Wake() {
  const std::uint64_t increment = 1;
  // It fails only if so many have called it that Progress() returns anyway.
  if (write(wake_.number(), &increment, sizeof(increment)) < 0 && errno != EAGAIN) Fail("eventfd");
}

void TcpTransport::Signal(std::uint64_t number) {
  for (auto& [member, neighbour] : neighbours_) {
    if (neighbour->closed) continue;
    const Frame frame{kSignal, static_cast<std::int64_t>(number)};
    neighbour->outgoing.push_back({frame, nullptr, 0, nullptr});
    if (neighbour->outgoing.size() == 1) Flush(*neighbour);
  }
}

void TcpTransport::Listen(std::function<void(std::uint64_t number)> on_signal) {
  on_signal_ = std::move(on_signal);
}

void TcpTransport::Flush(Neighbour& neighbour) {
  if (neighbour.closed) return;
  while (!neighbour.outgoing.empty()) {
    Neighbour::Outgoing& message = neighbour.outgoing.front();
    const auto frame = static_cast<std::int64_t>(sizeof(Frame));
    const std::int64_t of_frame = std::min(message.position, frame);
    const std::int64_t of_data = message.position - of_frame;
    iovec parts[2];
    parts[0].iov_base = reinterpret_cast<char*>(&message.frame) + of_frame;
    parts[0].iov_len = static_cast<std::size_t>(frame - of_frame);
    parts[1].iov_base = const_cast<char*>(message.data) + of_data;
    parts[1].iov_len = static_cast<std::size_t>(message.frame.DataBytes() - of_data);
    msghdr header{};
    header.msg_iov = parts;
    header.msg_iovlen = 2;
    const ssize_t length = sendmsg(neighbour.socket.number(), &header, MSG_NOSIGNAL);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) break;
    if (length < 0) return Lose(neighbour, Reason(errno));
    message.position += length;
    if (message.position < frame + message.frame.DataBytes()) continue;
    if (message.operation != nullptr) message.operation->done = true;
    neighbour.outgoing.pop_front();
  }
  if (neighbour.wants_to_write == !neighbour.outgoing.empty()) return;
  neighbour.wants_to_write = !neighbour.wants_to_write;
  epoll_event event{};
  event.events = EPOLLIN | (neighbour.wants_to_write ? EPOLLOUT : 0u);
  event.data.ptr = &neighbour;
  if (epoll_ctl(epoll_.number(), EPOLL_CTL_MOD, neighbour.socket.number(), &event) != 0) {
    Fail("epoll_ctl");
  }
}

void TcpTransport::Read(Neighbour& neighbour) {
  const auto frame = static_cast<std::int64_t>(sizeof(Frame));
  for (std::int64_t budget = kMostAtOnce; budget > 0 && !neighbour.closed;) {
    const bool in_frame = neighbour.read < frame;
    char* const to = in_frame ? reinterpret_cast<char*>(&neighbour.frame) + neighbour.read
                              : neighbour.incoming.data + (neighbour.read - frame);
    const std::int64_t bytes =
        in_frame ? frame - neighbour.read : frame + neighbour.frame.DataBytes() - neighbour.read;
    const ssize_t length =
        bytes == 0 ? 0 : recv(neighbour.socket.number(), to, static_cast<std::size_t>(bytes), 0);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0 && errno == EAGAIN) return;
    if (length < 0) return Lose(neighbour, Reason(errno));
    if (bytes > 0 && length == 0) return Lose(neighbour, kClosed);
    neighbour.read += length;
    budget -= length;
    if (neighbour.read < frame) continue;
    if (neighbour.frame.channel == kSignal) {
      neighbour.read = 0;
      on_signal_(static_cast<std::uint64_t>(neighbour.frame.bytes));
      continue;
    }
    if (in_frame) {
      if (neighbour.frame.bytes < 0 || neighbour.frame.bytes > kMostBytes) {
        throw std::runtime_error(neighbour.name + " has announced a message of " +
                                 std::to_string(neighbour.frame.bytes) +
                                 " bytes: its data is damaged");
      }
      BeginMessage(neighbour);
    }
    if (neighbour.read == frame + neighbour.frame.bytes) EndMessage(neighbour);
  }
}

void TcpTransport::BeginMessage(Neighbour& neighbour) {
  auto& receives = neighbour.channels[neighbour.frame.channel].receives;
  // One that does not fit is read elsewhere: whoever wants it is told of its size.
  neighbour.has_receive = !receives.empty() && receives.front().capacity >= neighbour.frame.bytes;
  if (neighbour.has_receive) {
    neighbour.incoming = receives.front();
    receives.pop_front();
  } else {
    neighbour.unexpected.resize(static_cast<std::size_t>(neighbour.frame.bytes));
    neighbour.incoming = {neighbour.unexpected.data(), neighbour.frame.bytes, nullptr};
  }
}

void TcpTransport::EndMessage(Neighbour& neighbour) {
  neighbour.read = 0;
  if (neighbour.has_receive) {
    neighbour.incoming.operation->bytes = neighbour.frame.bytes;
    neighbour.incoming.operation->done = true;
    return;
  }
  auto& channel = neighbour.channels[neighbour.frame.channel];
  if (channel.receives.empty()) {
    channel.unexpected.push_back(std::move(neighbour.unexpected));
  } else {
    Neighbour::Deliver(neighbour.unexpected, channel.receives.front());
    channel.receives.pop_front();
  }
  neighbour.unexpected.clear();
}

void TcpTransport::FindSilent() {
  std::uint64_t times;
  if (read(timer_.number(), &times, sizeof(times)) < 0 && errno != EAGAIN) Fail("timerfd");
  for (auto& [member, neighbour] : neighbours_) {
    if (!neighbour->closed && IsSilent(neighbour->socket.number(), options_.silence)) {
      Lose(*neighbour, Silence());
    }
  }
}

std::string TcpTransport::Reason(int error) const {
  if (error == ETIMEDOUT) return Silence();
  // It has ended with messages unread.
  if (error == ECONNRESET || error == EPIPE) return kClosed;
  return std::string("cannot be reached: ") + std::strerror(error);
}

std::string TcpTransport::Silence() const {
  std::string text = "has not answered";
  if (options_.silence.count() > 0) {
    text += " for " + std::to_string(options_.silence.count()) + " s";
    if (!options_.setting.empty()) text += " (" + options_.setting + ")";
  }
  return text + "; look for what drops packets between the hosts";
}

void TcpTransport::DumpState(StatePage& page) const {
  const auto frame = static_cast<std::int64_t>(sizeof(Frame));
  for (const auto& [member, neighbour] : neighbours_) {
    std::string text = neighbour->name + ": ";
    if (neighbour->closed) {
      page.Line(1, text + "lost, it " + neighbour->loss);
      continue;
    }
    const auto& outgoing = neighbour->outgoing;
    text += outgoing.empty() ? "nothing to send" : std::to_string(outgoing.size()) + " to send";
    if (!outgoing.empty()) {
      text += ", of the first " + std::to_string(outgoing.front().position) + " of " +
              std::to_string(frame + outgoing.front().frame.DataBytes()) + " bytes are sent";
    }
    std::size_t awaited = neighbour->has_receive && neighbour->read > 0 ? 1 : 0, unexpected = 0;
    for (const auto& [number, channel] : neighbour->channels) {
      awaited += channel.receives.size();
      unexpected += channel.unexpected.size();
    }
    text += ", " + std::to_string(awaited) + " awaited";
    if (neighbour->read >= frame) {
      text += ", " + std::to_string(neighbour->read) + " of " +
              std::to_string(frame + neighbour->frame.DataBytes()) + " bytes of one are here";
    }
    if (unexpected > 0) text += ", " + std::to_string(unexpected) + " here that nobody awaits yet";
    page.Line(1, text);
  }
}

void TcpTransport::Lose(Neighbour& neighbour, const std::string& why) {
  if (!neighbour.closed) {
    neighbour.closed = true;
    neighbour.loss = why;
    epoll_ctl(epoll_.number(), EPOLL_CTL_DEL, neighbour.socket.number(), nullptr);
  }
  auto& outgoing = neighbour.outgoing;
  outgoing.erase(std::remove_if(outgoing.begin(), outgoing.end(),
                                [](const auto& message) { return message.operation == nullptr; }),
                 outgoing.end());
  const bool is_awaited = neighbour.has_receive && neighbour.read > 0;
  const bool any =
      std::any_of(neighbour.channels.begin(), neighbour.channels.end(),
                  [](const auto& channel) { return !channel.second.receives.empty(); });
  if (!any && !is_awaited && outgoing.empty()) return;
  throw std::runtime_error(neighbour.name + " " + neighbour.loss);
}

}  // namespace horovod_opt
