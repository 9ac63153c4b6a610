#include "horovod_opt/csrc/core/report/state_socket.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <system_error>
#include <utility>

#include "horovod_opt/csrc/core/base/unix_socket.h"

namespace horovod_opt {
namespace {

using system_call::Fail;

constexpr int kBacklog = 16;
constexpr int kPatience = 2000;  // ms, with who does not read
// The thread's own memory (__thread) of all libraries is in it, too; what is not used costs nothing.
constexpr std::size_t kStackBytes = 512 << 10;

bool MayKnow(uid_t user) { return user == geteuid() || user == 0; }

}  // namespace

StateSocket::StateSocket(std::function<std::string()> state)
    : state_(std::move(state)),
      name_(kPrefix + unix_socket::NewSecret()),
      listener_(unix_socket::New(SOCK_STREAM)),
      end_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (end_.number() < 0) Fail("cannot make an eventfd");
  const bool bound = unix_socket::AtName(name_, [&](const sockaddr* address, socklen_t length) {
    return bind(listener_.number(), address, length);
  });
  if (!bound || listen(listener_.number(), kBacklog) != 0) Fail("cannot listen on a Unix socket");
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // Signals are for the threads that expect them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, &attributes, RunThread, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_create");
  has_thread_ = true;
}

StateSocket::~StateSocket() {
  if (!has_thread_) return;
  const std::uint64_t increment = 1;
  if (write(end_.number(), &increment, sizeof(increment)) < 0) return;  // never: it counts once
  pthread_join(thread_, nullptr);
}

void StateSocket::LeaveToParent() {
  has_thread_ = false;
  listener_ = Descriptor();
  end_ = Descriptor();
}

void* StateSocket::RunThread(void* socket) {
  // Not "hvd-": those work, and mode scp has a core for them.
  pthread_setname_np(pthread_self(), "horovod-state");
  static_cast<StateSocket*>(socket)->Run();
  return nullptr;
}

void StateSocket::Run() {
  while (Await(listener_.number(), POLLIN, -1)) {
    const Descriptor connection(
        accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    // No descriptor is free: whoever asks sees that nothing comes, and this thread must not spin.
    if (connection.number() < 0 && errno != ECONNABORTED && errno != EAGAIN && errno != EINTR) {
      Await(-1, 0, kPatience);
    }
    if (connection.number() < 0) continue;
    try {
      if (MayKnow(unix_socket::PeerOf(connection))) Answer(connection);
    } catch (const std::exception&) {
      // Who asks sees that the answer is not whole.
    }
  }
}

void StateSocket::Answer(const Descriptor& connection) const {
  const std::string text = state_();
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t length =
        send(connection.number(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (length >= 0) {
      sent += static_cast<std::size_t>(length);
    } else if (errno != EINTR &&
               (errno != EAGAIN || !Await(connection.number(), POLLOUT, kPatience))) {
      return;
    }
  }
}

bool StateSocket::Await(int descriptor, short events, int milliseconds) const {
  for (;;) {
    pollfd events_of[] = {{end_.number(), POLLIN, 0}, {descriptor, events, 0}};
    const int count = poll(events_of, 2, milliseconds);
    if (count < 0 && errno == EINTR) continue;
    return count > 0 && events_of[0].revents == 0;
  }
}

}  // namespace horovod_opt
