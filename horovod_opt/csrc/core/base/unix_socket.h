// Abstract Unix sockets (unix(7)), by which processes of one user and network namespace find each
// other without a file: names that nobody guesses, and whose process the other end is.
#pragma once

#include <stddef.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {
namespace unix_socket {

constexpr std::size_t kSecretBytes = 16;

// Random, in hexadecimal digits.
inline std::string NewSecret() {
  unsigned char bytes[kSecretBytes];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes))) {
    system_call::Fail("cannot draw a secret");
  }
  std::string text;
  for (const unsigned char byte : bytes) {
    for (const int digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
  }
  return text;
}

// All calls on it return at once. `type`: SOCK_STREAM, or SOCK_SEQPACKET, which keeps the bounds of
// messages.
inline Descriptor New(int type) {
  Descriptor descriptor(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (descriptor.number() < 0) system_call::Fail("cannot make a Unix socket");
  return descriptor;
}

// Calls bind() or connect(). A name that begins with a zero is an abstract one.
template <class Call>
bool AtName(const std::string& name, const Call& call) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return call(reinterpret_cast<const sockaddr*>(&address), length) == 0;
}

// The user who has connected, or who listens.
inline uid_t PeerOf(const Descriptor& connection) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(connection.number(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    system_call::Fail("cannot tell whose socket it is");
  }
  return peer.uid;
}

}  // namespace unix_socket
}  // namespace horovod_opt
