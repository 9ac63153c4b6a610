#include "horovod_opt/csrc/core/network/tcp_rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
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
  char host[NI_MAXHOST], port[NI_MAXSERV];
  const int error = getnameinfo(reinterpret_cast<sockaddr*>(&own), length, host, sizeof(host), port,
                                sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) throw std::runtime_error(gai_strerror(error));
  return std::string(host) + " " + port;
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
  struct Stranger {
    Descriptor socket;
    Hello hello{};
    std::size_t read = 0;
  };
  std::list<Stranger> strangers;
  while (!missing.empty()) {
    std::vector<pollfd> sockets{{listener_.number(), POLLIN, 0}};
    for (const Stranger& stranger : strangers) {
      sockets.push_back({stranger.socket.number(), POLLIN, 0});
    }
    const int ready = poll(sockets.data(), sockets.size(), MillisecondsUntil(deadline));
    if (ready < 0 && errno != EINTR) Fail("poll");
    if (ready == 0) {
      throw std::runtime_error("group " + std::to_string(*missing.begin()) +
                               " has not connected to this one");
    }
    Descriptor connection(
        accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.number() >= 0) strangers.push_back({std::move(connection)});
    for (auto stranger = strangers.begin(); stranger != strangers.end();) {
      char* const to = reinterpret_cast<char*>(&stranger->hello) + stranger->read;
      const ssize_t length = recv(stranger->socket.number(), to, sizeof(Hello) - stranger->read, 0);
      if (length < 0 && (errno == EAGAIN || errno == EINTR)) {
        ++stranger;
        continue;
      }
      stranger->read += static_cast<std::size_t>(std::max<ssize_t>(length, 0));
      if (length > 0 && stranger->read < sizeof(Hello)) {
        ++stranger;
        continue;
      }
      const Hello expected = HelloOf(stranger->hello.member, secret);
      if (length > 0 && std::memcmp(&expected, &stranger->hello, sizeof(Hello)) == 0 &&
          missing.erase(stranger->hello.member) > 0) {
        sockets_[stranger->hello.member] = std::move(stranger->socket);
      }
      stranger = strangers.erase(stranger);
    }
  }
}

}  // namespace horovod_opt
