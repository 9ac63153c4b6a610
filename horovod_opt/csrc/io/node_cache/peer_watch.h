// Peer death by poll(2): notices at once that the process at the other end of a socket has died or
// closed it.
#pragma once

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <functional>
#include <system_error>
#include <thread>
#include <utility>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {
namespace io {

// The peer sends nothing: anything that can be read is the end.
class PeerWatch {
 public:
  // `on_end` is called at most once, by a thread of its own. The caller keeps the socket open.
  PeerWatch(int socket, std::function<void()> on_end)
      : on_end_(std::move(on_end)), stop_(eventfd(0, EFD_CLOEXEC)) {
    if (stop_.number() < 0) {
      throw std::system_error(errno, std::generic_category(), "cannot watch the node's reader");
    }
    thread_ = std::thread([this, socket] { Run(socket); });
    pthread_setname_np(thread_.native_handle(), "hio-watch");
  }

  ~PeerWatch() {
    eventfd_write(stop_.number(), 1);
    thread_.join();
  }

 private:
  void Run(int socket) {
    pollfd ends[] = {{socket, POLLIN | POLLRDHUP, 0}, {stop_.number(), POLLIN, 0}};
    int ready;
    do {
      ready = poll(ends, 2, -1);
    } while (ready < 0 && errno == EINTR);
    if (ends[1].revents == 0) on_end_();
  }

  const std::function<void()> on_end_;
  const Descriptor stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace io
}  // namespace horovod_opt
