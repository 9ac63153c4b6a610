#include "horovod_opt/csrc/core/shared_memory/segment_handover.h"

#include <errno.h>
#include <sys/socket.h>

#include <cstring>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "horovod_opt/csrc/core/base/unix_socket.h"

namespace horovod_opt {
namespace {

using system_call::Fail;
using unix_socket::AtName;
using unix_socket::kSecretBytes;
using unix_socket::NewSecret;
using unix_socket::PeerOf;

// Connections that may wait to be accepted, those of strangers included.
constexpr int kBacklog = 1024;

struct Address {
  std::string name, question, answer;

  explicit Address(const std::string& text) {
    std::istringstream(text) >> name >> question >> answer;
  }
};

bool Asks(const Descriptor& connection, const std::string& question) {
  char text[2 * kSecretBytes + 1];
  const ssize_t length = recv(connection.number(), text, sizeof(text), 0);
  return length >= 0 && std::string(text, static_cast<std::size_t>(length)) == question;
}

// One message with room for one descriptor.
struct Message {
  explicit Message(std::size_t length) {
    part.iov_base = text;
    part.iov_len = length;
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = CMSG_LEN(sizeof(int));  // what it is aligned to would hold two
  }

  char text[2 * kSecretBytes + 1] = {};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec part{};
  msghdr header{};
};

void Send(const Descriptor& connection, const std::string& answer, const Descriptor& file) {
  Message message(answer.size());
  answer.copy(message.text, sizeof(message.text));
  cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = file.number();
  std::memcpy(CMSG_DATA(rights), &number, sizeof(number));
  if (sendmsg(connection.number(), &message.header, MSG_NOSIGNAL) < 0) {
    Fail("cannot hand shared memory over to a process that has asked for it");
  }
}

}  // namespace

SegmentGiver::SegmentGiver()
    : address_("horovod-opt-" + NewSecret() + " " + NewSecret() + " " + NewSecret()),
      listener_(unix_socket::New(SOCK_SEQPACKET)) {
  const bool bound = AtName(Address(address_).name, [&](const sockaddr* name, socklen_t length) {
    return bind(listener_.number(), name, length);
  });
  if (!bound || listen(listener_.number(), kBacklog) != 0) {
    Fail("cannot listen on a Unix socket for the processes that share memory");
  }
}

void SegmentGiver::Give(const Descriptor& file, int takers) {
  const Address own(address_);
  int served = 0;
  // The kernel keeps one more than the backlog. All takers are among them.
  for (int attempts = 0; served < takers && attempts <= kBacklog; ++attempts) {
    const Descriptor connection(
        accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.number() < 0 && errno == EAGAIN) break;
    if (connection.number() < 0) Fail("cannot accept those who ask for shared memory");
    if (PeerOf(connection) != geteuid() || !Asks(connection, own.question)) continue;
    Send(connection, own.answer, file);
    ++served;
  }
  if (served < takers) {
    throw std::runtime_error("of " + std::to_string(takers) + " processes of this node only " +
                             std::to_string(served) + " asked for its shared memory");
  }
}

SegmentTaker::SegmentTaker(const std::string& address)
    : address_(address), connection_(unix_socket::New(SOCK_SEQPACKET)) {
  const Address giver(address_);
  const bool connected = AtName(giver.name, [&](const sockaddr* name, socklen_t length) {
    return connect(connection_.number(), name, length);
  });
  if (!connected) {
    Fail("cannot connect to the Unix socket @" + giver.name +
         " for shared memory (containers need a network namespace in common)");
  }
  const uid_t peer = PeerOf(connection_);
  if (peer != geteuid()) {
    throw std::runtime_error("the Unix socket @" + giver.name + " belongs to user " +
                             std::to_string(peer) + ", not " + std::to_string(geteuid()));
  }
  if (send(connection_.number(), giver.question.data(), giver.question.size(), MSG_NOSIGNAL) < 0) {
    Fail("cannot ask on the Unix socket @" + giver.name + " for shared memory");
  }
}

Descriptor SegmentTaker::Take() {
  const Address giver(address_);
  Message message(sizeof(message.text));
  const ssize_t length = recvmsg(connection_.number(), &message.header, MSG_CMSG_CLOEXEC);
  if (length < 0) Fail("no shared memory came on the Unix socket @" + giver.name);
  Descriptor file;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message.header);
  if (rights != nullptr && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
    int number;
    std::memcpy(&number, CMSG_DATA(rights), sizeof(number));
    file = Descriptor(number);
  }
  if (std::string(message.text, static_cast<std::size_t>(length)) != giver.answer) {
    throw std::runtime_error("the Unix socket @" + giver.name +
                             (length == 0 ? " was closed" : " gave a wrong answer"));
  }
  if (file.number() < 0) {
    throw std::runtime_error("no descriptor came on the Unix socket @" + giver.name +
                             " (is ulimit -n reached?)");
  }
  return file;
}

}  // namespace horovod_opt
