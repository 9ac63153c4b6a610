#include "horovod_opt/csrc/io/node_cache/peer_watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <system_error>
#include <utility>

namespace horovod_opt {
namespace io {

PeerWatch::PeerWatch(int socket, std::function<void()> ended)
    : ended_(std::move(ended)), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (stop_.number() < 0) {
    throw std::system_error(errno, std::generic_category(), "cannot watch the node's leader");
  }
  thread_ = std::thread([this, socket] { Run(socket); });
  pthread_setname_np(thread_.native_handle(), "hio-watch");
}

PeerWatch::~PeerWatch() {
  eventfd_write(stop_.number(), 1);
  thread_.join();
}

void PeerWatch::Run(int socket) {
  pollfd watched[] = {{socket, POLLIN | POLLRDHUP, 0}, {stop_.number(), POLLIN, 0}};
  int ready;
  do {
    ready = poll(watched, 2, -1);
  } while (ready < 0 && errno == EINTR);
  if (watched[1].revents == 0) ended_();
}

}  // namespace io
}  // namespace horovod_opt
