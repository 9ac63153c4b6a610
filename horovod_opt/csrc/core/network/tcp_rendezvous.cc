#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <list>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {
namespace {

using Clock = std::chrono::steady_clock;
using system_call::Fail;
using system_call::MillisecondsUntil;

constexpr int kBacklog = 4096;
// Connections that have not said who they are, beyond those of members. These say so at once:
// whoever has said nothing for so long is none, and makes room where room is needed.
constexpr std::size_t kMostStrangers = 64;
constexpr std::chrono::seconds kHelloTime(1);
// Until it is tried again to accept, where nothing tells that a descriptor has become free.
constexpr std::chrono::milliseconds kRest(20);

// The first that a member says on a connection.
struct Hello {
  char secret[64];
  std::int32_t member;
};

Hello HelloOf(int member, const std::string& secret) {
  Hello hello{};
  secret.copy(hello.secret, sizeof(hello.secret));
  hello.member = member;
  return hello;
}

// In the same time wherever they differ.
bool AreEqual(const Hello& a, const Hello& b) {
  const auto* const left = reinterpret_cast<const unsigned char*>(&a);
  const auto* const right = reinterpret_cast<const unsigned char*>(&b);
  unsigned char difference = 0;
  for (std::size_t i = 0; i < sizeof(Hello); ++i) {
    difference = static_cast<unsigned char>(difference | (left[i] ^ right[i]));
  }
  return difference == 0;
}

struct SocketAddress {
  // Of numbers only: no name is looked up.
  SocketAddress(const std::string& host, const std::string& port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* info = nullptr;
    const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &info);
    if (error != 0) {
      throw std::runtime_error("'" + host + "' is no address: " + gai_strerror(error));
    }
    std::memcpy(&storage, info->ai_addr, info->ai_addrlen);
    length = info->ai_addrlen;
    freeaddrinfo(info);
  }

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }

  sockaddr_storage storage{};
  socklen_t length = 0;
};

Descriptor NewSocket(int family) {
  Descriptor descriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (descriptor.number() < 0) Fail("cannot make a TCP socket");
  return descriptor;
}

// What accept() fails with where the process or the machine has no room for another connection.
bool LacksRoom(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

std::string DescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return std::to_string(limit.rlim_cur);
}

std::string TextOf(const sockaddr_storage& address, socklen_t length, const char* separator) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  const int error = getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host,
                                sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) throw std::runtime_error(gai_strerror(error));
  return std::string(host) + separator + port;
}

// A connection of which nobody knows yet who is at its other end.
struct Stranger {
  enum State { kSilent, kHasSpoken, kGone };

  // kHasSpoken: `hello` is whole.
  State Listen() {
    while (read < sizeof(Hello)) {
      char* const to = reinterpret_cast<char*>(&hello) + read;
      const ssize_t length = recv(socket.number(), to, sizeof(Hello) - read, 0);
      if (length < 0 && errno == EINTR) continue;
      if (length < 0 && errno == EAGAIN) return kSilent;
      if (length <= 0) return kGone;
      read += static_cast<std::size_t>(length);
    }
    return kHasSpoken;
  }

  Descriptor socket;
  Clock::time_point since;
  Hello hello{};
  std::size_t read = 0;  // bytes
};

// False if `deadline` has passed.
bool Await(int socket, short events, Clock::time_point deadline) {
  pollfd poll_entry{socket, events, 0};
  for (;;) {
    const int ready = poll(&poll_entry, 1, MillisecondsUntil(deadline));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) Fail("poll");
  }
}

}  // namespace

std::string PeerAddress(const Descriptor& socket) {
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  if (getpeername(socket.number(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) {
    return "an address that is gone";
  }
  return TextOf(peer, length, " port ");
}

TcpRendezvous::TcpRendezvous(const std::string& host) {
  const SocketAddress address(host, "0");
  listener_ = NewSocket(address.family());
  if (bind(listener_.number(), address.get(), address.length) != 0 ||
      listen(listener_.number(), kBacklog) != 0) {
    Fail("cannot listen at " + host);
  }
}

std::string TcpRendezvous::address() const {
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  if (getsockname(listener_.number(), reinterpret_cast<sockaddr*>(&own), &length) != 0) {
    Fail("getsockname");
  }
  return TextOf(own, length, " ");
}

void TcpRendezvous::Call(int self, const std::vector<int>& neighbours,
                         const std::vector<std::string>& addresses, const std::string& secret,
                         std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (int member : neighbours) {
    if (member > self) continue;
    std::string host, port;
    std::istringstream(addresses.at(member)) >> host >> port;
    const SocketAddress address(host, port);
    Descriptor connection = NewSocket(address.family());
    const std::string whom = "cannot connect to " + host + " port " + port;
    if (connect(connection.number(), address.get(), address.length) != 0) {
      if (errno != EINPROGRESS) Fail(whom);
      if (!Await(connection.number(), POLLOUT, deadline)) throw std::runtime_error(whom);
      socklen_t length = sizeof(errno);
      int error = 0;
      getsockopt(connection.number(), SOL_SOCKET, SO_ERROR, &error, &length);
      errno = error;
      if (error != 0) Fail(whom);
    }
    const Hello hello = HelloOf(self, secret);
    // Of a new connection the buffer is empty, so it takes all of it.
    if (send(connection.number(), &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) Fail(whom);
    sockets_[member] = std::move(connection);
  }
}

void TcpRendezvous::Answer(int self, const std::vector<int>& neighbours, const std::string& secret,
                           std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  std::set<int> missing;
  for (int member : neighbours) {
    if (member > self) missing.insert(member);
  }
  std::list<Stranger> strangers;
  for (int no_room = 0; !missing.empty();) {  // errno
    std::vector<pollfd> sockets;
    for (const Stranger& stranger : strangers) {
      sockets.push_back({stranger.socket.number(), POLLIN, 0});
    }
    // Without room for it, the next connection would wake this again and again.
    if (no_room == 0) sockets.push_back({listener_.number(), POLLIN, 0});
    const auto until = no_room == 0 ? deadline : std::min(deadline, Clock::now() + kRest);
    const int ready = poll(sockets.data(), sockets.size(), MillisecondsUntil(until));
    if (ready < 0 && errno != EINTR) Fail("poll");
    Descriptor connection(
        accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    no_room = connection.number() < 0 && LacksRoom(errno) ? errno : 0;
    const auto now = Clock::now();
    if (connection.number() >= 0) strangers.push_back({std::move(connection), now});
    for (auto stranger = strangers.begin(); stranger != strangers.end();) {
      const Stranger::State state = stranger->Listen();
      const bool stays = no_room == 0 || now - stranger->since < kHelloTime;
      if (state == Stranger::kSilent && stays) {
        ++stranger;
        continue;
      }
      const int member = stranger->hello.member;
      if (state == Stranger::kHasSpoken && AreEqual(HelloOf(member, secret), stranger->hello) &&
          missing.erase(member) > 0) {
        sockets_[member] = std::move(stranger->socket);
      }
      stranger = strangers.erase(stranger);
    }
    if (strangers.size() > kMostStrangers + missing.size()) strangers.pop_front();
    if (missing.empty() || now < deadline) continue;
    const std::string who = "group " + std::to_string(*missing.begin());
    if (no_room == 0) throw std::runtime_error(who + " has not connected to this one");
    errno = no_room;
    Fail("cannot accept the connection of " + who + "; raise the limit of open files, " +
         DescriptorLimit() + " here (ulimit -n)");
  }
}

}  // namespace horovod_opt
