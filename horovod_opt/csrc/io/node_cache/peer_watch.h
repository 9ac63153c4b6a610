// Notices at once that the process at the other end of a socket has died or closed it.
#pragma once

#include <functional>
#include <thread>

#include "horovod_opt/csrc/core/base/file_descriptor.h"

namespace horovod_opt {
namespace io {

// The peer sends nothing: anything that can be read is the end.
class PeerWatch {
 public:
  // `ended` is called at most once, by a thread of its own. The caller keeps the socket open.
  PeerWatch(int socket, std::function<void()> ended);
  ~PeerWatch();

 private:
  void Run(int socket);

  const std::function<void()> ended_;
  const Descriptor stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace io
}  // namespace horovod_opt
